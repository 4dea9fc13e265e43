"""mats: can I trust this memory, and what it is connected to, with my work?"""

__version__ = "0.1.0"
