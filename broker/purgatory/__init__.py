"""Where requests wait: one timing wheel, watchers by key. Entry: ``purgatory.Purgatory``."""
