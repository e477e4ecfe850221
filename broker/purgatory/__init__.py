"""Where requests wait: one hierarchical timing wheel, watchers by key. Entry: ``purgatory.Purgatory``."""
