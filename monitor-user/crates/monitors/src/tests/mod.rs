//! Tests of the engine on a clock that the test owns, with a scripted backend.
//!
//! No thread, no socket, no waiting: the fixture gives the engine its inputs, takes the readings
//! from a backend that records what it is asked for, and collects replies and events.

mod alarm;
mod ended;
mod fixture;
mod name;
mod reading;
mod series;
mod shape;
mod target;
