//! Content negotiation: the encoding of the metrics that a collector prefers.
//!
//! In: the header `Accept`. Out: an encoding and its media type. The default is the text format of
//! Prometheus.

use monitor_format::exposition::{Dialect, Encoding};

/// The supported encodings, the best first.
const FORMS: [(Encoding, &str, &str); 3] = [
    (
        Encoding::Protobuf,
        "application/vnd.google.protobuf",
        "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
         encoding=delimited",
    ),
    (
        Encoding::Text(Dialect::OpenMetrics),
        "application/openmetrics-text",
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    ),
    (Encoding::Text(Dialect::Prometheus), "text/plain", "text/plain; version=0.0.4; charset=utf-8"),
];

/// The preferred encoding and its media type.
pub fn form(accept: &str) -> (Encoding, &'static str) {
    let mut best = (0.0, &FORMS[2]);
    for offer in accept.split(',') {
        let mut parts = offer.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let parameters: Vec<_> = parts.filter_map(|it| it.split_once('=')).collect();
        let parameter =
            |name: &str| parameters.iter().find(|it| it.0.trim() == name).map(|it| it.1);
        let quality = parameter("q").map_or(1.0, |it| it.trim().parse().unwrap_or(0.0));
        let form = FORMS.iter().find(|it| it.1.eq_ignore_ascii_case(media));
        let Some(form) = form.filter(|it| quality > best.0 && is_supported(it.0, &parameter))
        else {
            continue;
        };
        best = (quality, form);
    }
    (best.1.0, best.1.2)
}

/// Whether the parameters name a message and a version that is supported.
fn is_supported<'a>(encoding: Encoding, parameter: &impl Fn(&str) -> Option<&'a str>) -> bool {
    let is = |name, want: &str| parameter(name).is_none_or(|it| it.trim_matches('"') == want);
    match encoding {
        Encoding::Protobuf => {
            parameter("proto") == Some("io.prometheus.client.MetricFamily")
                && is("encoding", "delimited")
        }
        Encoding::Text(Dialect::OpenMetrics) => is("version", "1.0.0") || is("version", "0.0.1"),
        Encoding::Text(Dialect::Prometheus) | Encoding::Otlp => is("version", "0.0.4"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, want: Encoding) {
        assert_eq!(form(accept).0, want, "{accept}");
    }

    #[test]
    fn the_best_common_encoding_is_chosen() {
        let (open, plain) = (Dialect::OpenMetrics, Dialect::Prometheus);
        let delimited = "proto=io.prometheus.client.MetricFamily;encoding=delimited";
        let proto = format!("application/vnd.google.protobuf;{delimited}");
        check("", Encoding::Text(plain));
        check("*/*", Encoding::Text(plain));
        check("text/html,*/*;q=0.8", Encoding::Text(plain));
        check("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", Encoding::Text(open));
        check("text/plain;q=0.9,application/openmetrics-text;q=0.2", Encoding::Text(plain));
        check(&format!("{proto},application/openmetrics-text;q=0.8,*/*;q=0.1"), Encoding::Protobuf);
        check("application/vnd.google.protobuf;proto=else", Encoding::Text(plain));
        check("application/openmetrics-text;version=9.0.0", Encoding::Text(plain));
        check(";;,=,q=,\u{fffd}", Encoding::Text(plain));
    }
}
