//! Where the server is: the forms of URL that people may give.

use crate::store::Error;

/// A server, several that form one cluster, or Sentinels that know the server.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) kind: Kind,
    pub(super) is_tls: bool,
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: i64,
    /// A file of certificates to trust, from `?ca=`.
    pub(super) ca: Option<String>,
    /// The login at the Sentinels, from `?sentinel_user=` and `&sentinel_password=`.
    pub(super) sentinel_user: Option<String>,
    pub(super) sentinel_password: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Single,
    Cluster,
    /// The name under which the Sentinels know the server.
    Sentinel(String),
}

const FORMS: &str = "use redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], rediss://… for TLS, \
    redis+cluster://HOST:PORT,HOST:PORT or redis+sentinel://HOST:PORT,…/NAME[/DATABASE]";

impl Address {
    /// Reads a URL. No error repeats it: it may hold a password.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let bad = |detail: &str| Error::Io {
            place: "the address of Redis".into(),
            detail: format!("{detail}; {FORMS}"),
        };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| bad("it has no scheme"))?;
        let (base, variant) = scheme.split_once('+').unwrap_or((scheme, ""));
        let is_tls = match base {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(bad("its scheme is unknown")),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let text = |text: &str| {
            let decoded = decode(text).ok_or_else(|| bad("its login is badly escaped"))?;
            Ok::<_, Error>((!decoded.is_empty()).then_some(decoded))
        };
        let default_port = if variant == "sentinel" { 26379 } else { 6379 };
        let hosts = hosts
            .split(',')
            .map(|host| read_host(host, default_port).ok_or_else(|| bad("a host is not readable")))
            .collect::<Result<Vec<_>, _>>()?;
        let (kind, database) = match variant {
            "" => (Kind::Single, path),
            "cluster" => (Kind::Cluster, path),
            "sentinel" => {
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                if name.is_empty() {
                    return Err(bad("it does not name the Sentinels' server"));
                }
                (Kind::Sentinel(name.to_owned()), database)
            }
            _ => return Err(bad("its scheme is unknown")),
        };
        let database = match database.trim_end_matches('/') {
            "" => 0,
            number => number
                .parse::<u16>()
                .map_err(|_| bad("its database is not a number"))?
                .into(),
        };
        if kind == Kind::Cluster && database != 0 {
            return Err(bad("a cluster has database 0 only"));
        }
        if kind == Kind::Single && hosts.len() != 1 {
            return Err(bad("it names several hosts"));
        }
        let (mut ca, mut sentinel_user, mut sentinel_password) = (None, None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("ca", file)) => ca = text(file)?,
                Some(("sentinel_user", name)) => sentinel_user = text(name)?,
                Some(("sentinel_password", secret)) => sentinel_password = text(secret)?,
                _ => {
                    return Err(bad(
                        "it has a setting other than `ca=FILE`, `sentinel_user=USER` \
                                    and `sentinel_password=PASSWORD`",
                    ));
                }
            }
        }
        let has_sentinels = matches!(kind, Kind::Sentinel(_));
        if !has_sentinels && (sentinel_user.is_some() || sentinel_password.is_some()) {
            return Err(bad("it has a login for Sentinels, and names none"));
        }
        Ok(Self {
            kind,
            is_tls,
            hosts,
            user: text(user)?,
            password: text(password)?,
            database,
            ca,
            sentinel_user,
            sentinel_password,
        })
    }

    /// Returns what no text may show.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let both = [&self.password, &self.sentinel_password];
        both.into_iter().filter_map(|secret| secret.as_deref())
    }
}

/// Names the place without its login.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.kind {
            Kind::Single => "Redis at ",
            Kind::Cluster => "the Redis cluster at ",
            Kind::Sentinel(_) => "the Redis of the Sentinels at ",
        })?;
        for (i, (host, port)) in self.hosts.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{host}:{port}")?;
        }
        if self.database == 0 {
            Ok(())
        } else {
            write!(f, "/{}", self.database)
        }
    }
}

fn read_host(host: &str, default_port: u16) -> Option<(String, u16)> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (name, port) = rest.split_once(']')?;
            (name, port.strip_prefix(':').unwrap_or(port))
        }
        None => host.split_once(':').unwrap_or((host, "")),
    };
    let port = if port.is_empty() {
        default_port
    } else {
        port.parse().ok()?
    };
    (!name.is_empty()).then(|| (name.to_owned(), port))
}

/// Undoes percent signs.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        if *first == b'%' {
            let (hex, tail) = tail.split_at_checked(2)?;
            let hex = std::str::from_utf8(hex).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = tail;
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_understood() {
        for (url, shown, database) in [
            ("redis://h", "Redis at h:6379", 0),
            ("redis://u:p%40s@h:1/3", "Redis at h:1/3", 3),
            ("rediss://[::1]:7/0", "Redis at ::1:7", 0),
            ("redis+cluster://a:1,b:2", "the Redis cluster at a:1,b:2", 0),
            (
                "redis+sentinel://a,b:2/main/2",
                "the Redis of the Sentinels at a:26379,b:2/2",
                2,
            ),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!((&*address.to_string(), address.database), (shown, database));
        }
        let address = Address::parse("rediss://u:p%40s@h?ca=/x%20y").unwrap();
        assert_eq!(address.user.as_deref(), Some("u"));
        assert_eq!(address.password.as_deref(), Some("p@s"));
        assert_eq!(address.ca.as_deref(), Some("/x y"));
        assert!(address.is_tls);
        let url = "redis+sentinel://u:p@a/main?sentinel_user=s&sentinel_password=q%26";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.secrets().collect::<Vec<_>>(), ["p", "q&"]);
        assert_eq!(address.sentinel_user.as_deref(), Some("s"));
        let address = Address::parse("redis://:only@h").unwrap();
        assert_eq!(
            (address.user, address.password),
            (None, Some("only".into()))
        );
    }

    #[test]
    fn what_is_not_understood_is_refused_without_its_password() {
        for url in [
            "h:1",
            "http://u:secret@h",
            "redis://u:secret@h/x",
            "redis://u:secret@h:port",
            "redis://u:secret@a,b",
            "redis+cluster://u:secret@h:1/3",
            "redis+sentinel://u:secret@h:1",
            "redis://u:secret@h?cb=1",
            "redis://h?sentinel_password=secret",
            "redis+cluster://h?sentinel_user=secret",
            "redis://u:secret%@h",
        ] {
            let Err(error) = Address::parse(url) else {
                panic!("`{url}` is wrong")
            };
            let text = format!("{error} {error:?}");
            assert!(!text.contains("secret"), "{text}");
            assert!(text.contains("redis+sentinel://"), "{text}");
        }
    }
}
