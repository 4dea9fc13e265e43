"""The command line: typer, printing and exit codes live here and nowhere else."""
