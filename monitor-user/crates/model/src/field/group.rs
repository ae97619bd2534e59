//! What is known of a group of processes beside the sums of their fields.

use super::{Row, category};

/// The values of one group.
pub type GroupRow = Row<GroupField, { GroupField::COUNT }>;

category! {
    /// A field of a group.
    GroupField {
        By: "by", "BY", None, Text, Label,
            "What its processes have in common: job, user, comm, cgroup or container",
            "--group-by", "--group-by";
        Name: "name", "NAME", None, Text, Label,
            "Its name; (none) for processes without, (other) for those beyond the most groups",
            "job, user, comm, cgroup or container",
            "job, user, comm, cgroup or container";
        Processes: "processes", "PROCS", Count, Number, Gauge,
            "Processes in it that live", "counted", "counted";
        Ended: "ended", "ENDED", Count, Number, Counter,
            "Processes that ended in it since it was first seen", "counted", "counted";
        Lost: "lost", "LOST", Count, Number, Counter,
            "Of the ended, those that left no final record: their last numbers seen count",
            "counted", "counted";
        Since: "since_ns", "SINCE", Nanoseconds, Number, Label,
            "When its first process was seen, after boot", "counted", "counted";
        Until: "until_ns", "UNTIL", Nanoseconds, Number, Label,
            "When its last process was found to be gone, after boot; absent while one lives",
            "counted", "counted";
    }
}
