//! What is promised of monitors, on a clock that the tests own and a world that a script plays.
//!
//! No thread, no socket, no waiting: a scene gives the engine its inputs, lets the views that it
//! hands out look at a backend that counts what it is asked, and notes what is told to whom.

mod door;
mod ended;
mod name;
mod scene;
mod series;
mod shape;
mod target;
