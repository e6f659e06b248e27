//! An image's address, taken apart.

/// Where an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picture<'a> {
    /// In the address itself.
    Inline {
        /// As in `image/png`.
        media_type: &'a str,
        /// The image.
        base64: &'a str,
    },
    /// Somewhere else; the provider fetches it.
    Remote(&'a str),
}

impl<'a> Picture<'a> {
    /// Reads an address. One that begins with `data:` without being base64 counts as remote: the
    /// provider says what is wrong with it.
    pub(crate) fn of(url: &'a str) -> Self {
        let inline = || {
            let (head, base64) = url.strip_prefix("data:")?.split_once(',')?;
            let media_type = head.strip_suffix(";base64")?.split(';').next()?;
            Some(Self::Inline { media_type, base64 })
        };
        inline().unwrap_or(Self::Remote(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inline_image_has_a_type() {
        let picture = Picture::of("data:image/png;base64,iVBO");
        let (media_type, base64) = ("image/png", "iVBO");
        assert_eq!(picture, Picture::Inline { media_type, base64 });
        let remote = "https://h/a.png";
        assert_eq!(Picture::of(remote), Picture::Remote(remote));
    }
}
