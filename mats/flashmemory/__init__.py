"""The reference FlashMemory engine: pages of keys and values in frames of a pool.

Its page pool (:mod:`mats.flashmemory.pool`) stands on its own: it is also what ``mats defrag`` compacts.
"""
