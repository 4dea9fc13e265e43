# Two H100; the record that the second keeps of itself is damaged.
[system]
like = h100x8
count = 2

[1]
inforom.valid = !14

[host]
nodes = nvidia0, nvidia1
