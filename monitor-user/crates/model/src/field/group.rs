//! The fields of a group of processes besides the sums of its members' fields.

use super::{Row, category};

/// The values of one group.
pub type GroupRow = Row<GroupField, { GroupField::COUNT }>;

category! {
    /// A field of a group.
    GroupField {
        By: "by", "BY", None, Text, Label,
            "What its processes have in common: job, user, comm, cgroup or container", "--group-by";
        Name: "name", "NAME", None, Text, Label,
            "Name; (none) for processes without one, (other) beyond the maximum number of groups",
            "job, user, comm, cgroup or container";
        Processes: "processes", "PROCS", Count, Number, Gauge,
            "Processes in it that live", "counted";
        Ended: "ended", "ENDED", Count, Number, Counter,
            "Processes that ended in it since it was first seen", "counted";
        Lost: "lost", "LOST", Count, Number, Counter,
            "Ended processes without a final record; the last values seen are counted", "counted";
        Since: "since_ns", "SINCE", Nanoseconds, Number, Label,
            "Time since boot when its first process was seen", "counted";
        Until: "until_ns", "UNTIL", Nanoseconds, Number, Label,
            "Time since boot when its last process was found to have ended; absent before",
            "counted";
    }
}
