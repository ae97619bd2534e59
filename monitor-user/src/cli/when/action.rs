//! What to do at an event, as people write it.

use super::super::exit::Failure;
use super::event::{Event, signal};

/// What is done each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// A line is printed.
    pub print: bool,
    /// It is counted.
    pub count: bool,
    /// The time that calls take is counted.
    pub time: bool,
    /// This signal is sent to the process.
    pub signal: Option<u32>,
}

const STOP: u32 = 19;

impl Actions {
    /// Reads them.
    pub fn from_text(text: &str) -> Result<Self, Failure> {
        let mut it = Self::default();
        for word in text.split(',').map(str::trim) {
            match word.split_once(char::is_whitespace) {
                None if word == "print" => it.print = true,
                None if word == "count" => it.count = true,
                None if word == "time" => it.time = true,
                None if word == "stop" => it.send(STOP)?,
                Some(("kill", name)) => it.send(signal(name.trim())?)?,
                _ => {
                    return Err(Failure::usage(format!(
                        "unknown action {word:?}: print, count, time, stop or `kill SIGNAL`"
                    )));
                }
            }
        }
        Ok(it)
    }

    fn send(&mut self, number: u32) -> Result<(), Failure> {
        if self.signal.replace(number).is_some() {
            return Err(Failure::usage("one signal is sent each time: stop or one kill"));
        }
        Ok(())
    }

    /// Where each is done.
    pub fn places(&self) -> String {
        let kernel =
            [("count", self.count), ("time", self.time), ("signal", self.signal.is_some())];
        let kernel: Vec<&str> =
            kernel.into_iter().filter(|(_, is_it)| *is_it).map(|(name, _)| name).collect();
        let mut places = Vec::new();
        places
            .extend((!kernel.is_empty()).then(|| format!("in the kernel: {}", kernel.join(", "))));
        places.extend(self.print.then(|| "from a copy: print".to_owned()));
        places.join("; ")
    }

    /// Whether they can be done at this event.
    pub fn fit(&self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::Call(..) => Ok(()),
            _ if self.time => {
                Err(Failure::usage("only calls take time: write `call FUNCTION` before `time`"))
            }
            Event::End if self.signal.is_some() => {
                Err(Failure::usage("a process that ends takes no signal any more"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_stand_between_commas() {
        let it = Actions::from_text("count, time").unwrap();
        assert_eq!(it, Actions { count: true, time: true, ..Actions::default() });
        let it = Actions::from_text("print,kill SIGUSR1").unwrap();
        assert_eq!((it.print, it.signal), (true, Some(10)));
        assert_eq!(Actions::from_text("stop").unwrap().signal, Some(19));
    }

    #[test]
    fn it_is_said_what_the_kernel_does_and_what_is_done_later() {
        let places = |text| Actions::from_text(text).unwrap().places();
        assert_eq!(places("print, time,stop"), "in the kernel: time, signal; from a copy: print");
        assert_eq!(places("count"), "in the kernel: count");
        assert_eq!(places("print"), "from a copy: print");
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let error = |text: &str| Actions::from_text(text).unwrap_err().message;
        assert!(error("explode").contains("unknown action"));
        assert!(error("").contains("unknown action"));
        assert!(error("stop,kill TERM").contains("one signal"));
        let timed = Actions::from_text("time").unwrap();
        assert!(timed.fit(&Event::Exec).unwrap_err().message.contains("only calls take time"));
    }
}
