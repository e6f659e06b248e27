//! What the chat backends promise, seen from outside: whole processes against servers on loopback.

mod canaries;
mod doctor;
mod recording;
