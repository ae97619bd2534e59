//! The actions of `monitor when`: parses `print,count,time,stop` and `kill SIGNAL`.
//!
//! In: text. Out: `Actions`, or a failure that names the valid ones.

use super::super::exit::Failure;
use super::event::{WhenEvent, signal};

/// What is done at each event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// Print a line.
    pub print: bool,
    /// Count the event.
    pub count: bool,
    /// Measure the duration of calls.
    pub time: bool,
    /// Send this signal to the process.
    pub signal: Option<u32>,
}

const STOP: u32 = 19;

impl Actions {
    /// Parses a list of actions.
    pub fn from_text(text: &str) -> Result<Self, Failure> {
        let mut actions = Self::default();
        for word in text.split(',').map(str::trim) {
            match word.split_once(char::is_whitespace) {
                None if word == "print" => actions.print = true,
                None if word == "count" => actions.count = true,
                None if word == "time" => actions.time = true,
                None if word == "stop" => actions.send(STOP)?,
                Some(("kill", name)) => actions.send(signal(name.trim())?)?,
                _ => {
                    return Err(Failure::usage(format!(
                        "unknown action {word:?}: expected print, count, time, stop or \
                         `kill SIGNAL`"
                    )));
                }
            }
        }
        Ok(actions)
    }

    fn send(&mut self, number: u32) -> Result<(), Failure> {
        if self.signal.replace(number).is_some() {
            return Err(Failure::usage("only one signal can be sent: use stop or one kill"));
        }
        Ok(())
    }

    /// Where each action runs, as text.
    pub fn execution_places(&self) -> String {
        let kernel =
            [("count", self.count), ("time", self.time), ("signal", self.signal.is_some())];
        let kernel: Vec<&str> =
            kernel.into_iter().filter(|(_, is_it)| *is_it).map(|(name, _)| name).collect();
        let mut places = Vec::new();
        places
            .extend((!kernel.is_empty()).then(|| format!("in the kernel: {}", kernel.join(", "))));
        places.extend(self.print.then(|| "in user space: print".to_owned()));
        places.join("; ")
    }

    /// Checks that the actions are possible at this event.
    pub fn check(&self, event: &WhenEvent) -> Result<(), Failure> {
        match event {
            WhenEvent::Call(..) => Ok(()),
            _ if self.time => {
                Err(Failure::usage("time needs a call: use the event `call FUNCTION`"))
            }
            WhenEvent::End if self.signal.is_some() => {
                Err(Failure::usage("an exiting process takes no signal: use print or count"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_separated_by_commas() {
        let it = Actions::from_text("count, time").unwrap();
        assert_eq!(it, Actions { count: true, time: true, ..Actions::default() });
        let it = Actions::from_text("print,kill SIGUSR1").unwrap();
        assert_eq!((it.print, it.signal), (true, Some(10)));
        assert_eq!(Actions::from_text("stop").unwrap().signal, Some(19));
    }

    #[test]
    fn places_of_execution_are_listed() {
        let places = |text| Actions::from_text(text).unwrap().execution_places();
        assert_eq!(places("print, time,stop"), "in the kernel: time, signal; in user space: print");
        assert_eq!(places("count"), "in the kernel: count");
        assert_eq!(places("print"), "in user space: print");
    }

    #[test]
    fn impossible_actions_are_refused() {
        let error = |text: &str| Actions::from_text(text).unwrap_err().message;
        assert!(error("explode").contains("unknown action"));
        assert!(error("").contains("unknown action"));
        assert!(error("stop,kill TERM").contains("only one signal"));
        let timed = Actions::from_text("time").unwrap();
        assert!(timed.check(&WhenEvent::Exec).unwrap_err().message.contains("time needs a call"));
    }
}
