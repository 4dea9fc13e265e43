# No driver is loaded: nothing starts.
[system]
init = !9
