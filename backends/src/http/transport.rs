//! What of a machine's network all calls share.

use std::path::PathBuf;
use std::time::Duration;

/// Least and most that the first byte of an answer in pieces may take, unless somebody sets it.
const FIRST_BYTE_MIN: Duration = Duration::from_secs(30);
const FIRST_BYTE_MAX: Duration = Duration::from_secs(300);

/// Proxies, roots and limits.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Proxy of plain addresses.
    pub http_proxy: Option<String>,
    /// Proxy of TLS addresses.
    pub https_proxy: Option<String>,
    /// Hosts that are called directly, with commas between.
    pub no_proxy: String,
    /// A file of root certificates that are trusted beside the system's, in PEM.
    pub ca_file: Option<PathBuf>,
    /// How long the first byte of an answer in pieces may take; `None`: see
    /// [`Transport::first_byte_within`].
    pub first_byte: Option<Duration>,
    /// How long any further piece of an answer may take.
    pub between_chunks: Duration,
}

impl Default for Transport {
    fn default() -> Self {
        Self {
            http_proxy: None,
            https_proxy: None,
            no_proxy: String::new(),
            ca_file: None,
            first_byte: None,
            between_chunks: Duration::from_secs(180),
        }
    }
}

impl Transport {
    /// Reads what the environment says: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` in
    /// small letters or capitals, `SKILLOPT_CA_FILE`, `SKILLOPT_FIRST_BYTE_SECONDS` and
    /// `SKILLOPT_BETWEEN_CHUNKS_SECONDS`. `SSL_CERT_FILE` and `SSL_CERT_DIR` name the system's
    /// own roots.
    #[must_use]
    pub fn from_env(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let either = |name: &str| get(name).or_else(|| get(&name.to_uppercase()));
        let all = || either("all_proxy");
        // Whoever may set headers of a CGI program must not choose its proxy.
        let is_cgi = get("REQUEST_METHOD").is_some();
        let http = get("http_proxy").or_else(|| get("HTTP_PROXY").filter(|_| !is_cgi));
        let seconds = |name: &str| {
            let given = get(name).and_then(|text| text.trim().parse::<f64>().ok());
            given
                .filter(|seconds| *seconds > 0.0)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        };
        let default = Self::default();
        Self {
            http_proxy: http.or_else(all),
            https_proxy: either("https_proxy").or_else(all),
            no_proxy: either("no_proxy").unwrap_or_default(),
            ca_file: get("SKILLOPT_CA_FILE").map(PathBuf::from),
            first_byte: seconds("SKILLOPT_FIRST_BYTE_SECONDS"),
            between_chunks: seconds("SKILLOPT_BETWEEN_CHUNKS_SECONDS")
                .unwrap_or(default.between_chunks),
        }
    }

    /// Returns how long the first byte of an answer in pieces may take if the whole answer may take
    /// `limit`. What nobody set is half of that, so that a server that says nothing is noticed before
    /// the time for another try is gone; but long enough for a model that thinks.
    #[must_use]
    pub fn first_byte_within(&self, limit: Duration) -> Duration {
        let usual = || (limit / 2).clamp(FIRST_BYTE_MIN, FIRST_BYTE_MAX);
        self.first_byte.unwrap_or_else(usual)
    }
}
