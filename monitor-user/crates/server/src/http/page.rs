//! The files of the page, embedded in the program: nothing is loaded from another site.
//!
//! In: a path. Out: a file and its media type. The chart library is uPlot 1.6.32, unchanged; its
//! licence and its checksum are in the same folder, and a test checks the checksum.

use super::body::Answer;

/// A path, its media type and its content.
type Asset = (&'static str, &'static str, &'static [u8]);

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

const ASSETS: &[Asset] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("page/index.html")),
    ("/style.css", STYLE, include_bytes!("page/style.css")),
    ("/icon.svg", "image/svg+xml", include_bytes!("page/icon.svg")),
    ("/app.js", SCRIPT, include_bytes!("page/app.js")),
    ("/charts.js", SCRIPT, include_bytes!("page/charts.js")),
    ("/cluster.js", SCRIPT, include_bytes!("page/cluster.js")),
    ("/details.js", SCRIPT, include_bytes!("page/details.js")),
    ("/events.js", SCRIPT, include_bytes!("page/events.js")),
    ("/filter.js", SCRIPT, include_bytes!("page/filter.js")),
    ("/heat.js", SCRIPT, include_bytes!("page/heat.js")),
    ("/node.js", SCRIPT, include_bytes!("page/node.js")),
    ("/nodemap.js", SCRIPT, include_bytes!("page/nodemap.js")),
    ("/ranks.js", SCRIPT, include_bytes!("page/ranks.js")),
    ("/replay.js", SCRIPT, include_bytes!("page/replay.js")),
    ("/service.js", SCRIPT, include_bytes!("page/service.js")),
    ("/store.js", SCRIPT, include_bytes!("page/store.js")),
    ("/table.js", SCRIPT, include_bytes!("page/table.js")),
    ("/units.js", SCRIPT, include_bytes!("page/units.js")),
    ("/uplot.js", SCRIPT, include_bytes!("page/vendor/uplot.js")),
    ("/uplot.css", STYLE, include_bytes!("page/vendor/uplot.css")),
];

/// The response for a path, if it is one of the page.
pub fn asset(path: &str) -> Option<Answer> {
    let (_, media, bytes) = ASSETS.iter().find(|it| it.0 == path)?;
    Some(Answer::whole(media, *bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};
    use std::fmt::Write;

    #[test]
    fn vendored_files_have_their_published_checksums() {
        let sums = include_str!("page/vendor/SHA256SUMS");
        for name in ["uplot.js", "uplot.css"] {
            let (.., bytes) =
                ASSETS.iter().find(|it| it.0 == format!("/{name}")).expect("an asset");
            let mut sum = String::new();
            Sha256::digest(bytes).iter().for_each(|byte| write!(sum, "{byte:02x}").expect("text"));
            assert!(sums.contains(&format!("{sum}  {name}\n")), "{name}: {sum}");
        }
    }

    #[test]
    fn nothing_is_loaded_from_another_site() {
        for (path, _, bytes) in ASSETS.iter().filter(|it| !it.0.starts_with("/uplot")) {
            let text = String::from_utf8_lossy(bytes).replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains("http://") && !text.contains("https://"), "{path}");
        }
    }
}
