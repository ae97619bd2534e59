pub fn run(_: Option<&str>) -> crate::Outcome { Ok(()) }
