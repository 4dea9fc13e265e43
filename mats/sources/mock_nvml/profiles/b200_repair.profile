# One B200 that repairs a channel of its memory at the next reset; one cell cannot be repaired.
[system]
like = b200

[0]
repair = 1, 0
unrepairable = 1
