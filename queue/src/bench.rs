//! Measures a round of the queue; filled in next.
