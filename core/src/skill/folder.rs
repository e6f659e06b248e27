//! A skill as a folder value: its `SKILL.md` and the files that come with it.
//!
//! A folder travels as one blob. A skill that is only a document is encoded as its bare text, so
//! that its address is the plain SHA-256 of the text (training spec, chapter 0).

use std::collections::BTreeMap;

use crate::Hash;

/// Name of the trained document.
pub const DOCUMENT: &str = "SKILL.md";

/// First bytes of an encoded folder with files. No UTF-8 text starts with 0xFF, so a bare document
/// is never taken for one.
const MAGIC: &[u8] = b"\xffskill-folder-1\n";

/// A skill: the trained document and the other files of its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// Text of `SKILL.md`.
    pub document: String,
    files: BTreeMap<String, Vec<u8>>,
}

/// A skill folder that cannot be built or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FolderError {
    /// A path that could leave the folder or means the document.
    #[error(
        "`{0}` cannot be a file of a skill folder; use a relative path with `/` between names, \
         no `.` or `..`, and not `{DOCUMENT}` itself"
    )]
    BadPath(String),
    /// Bytes that no skill folder was encoded to.
    #[error("not an encoded skill folder: {0}")]
    BadEncoding(&'static str),
}

impl Folder {
    /// Returns a skill that is only a document.
    #[must_use]
    pub fn of_document(document: impl Into<String>) -> Self {
        Self {
            document: document.into(),
            files: BTreeMap::new(),
        }
    }

    /// Returns the same files around another document.
    #[must_use]
    pub fn with_document(&self, document: impl Into<String>) -> Self {
        Self {
            document: document.into(),
            files: self.files.clone(),
        }
    }

    /// Adds a file, replacing one of the same path.
    ///
    /// # Errors
    /// The path is absolute, leaves the folder, has an empty, `.` or `..` part, a backslash or a
    /// control character, or names the document.
    pub fn insert(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), FolderError> {
        if !is_plain(path) {
            return Err(FolderError::BadPath(path.to_owned()));
        }
        self.files.insert(path.to_owned(), bytes);
        Ok(())
    }

    /// Returns the files besides the document, by path.
    #[must_use]
    pub const fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// Returns the files that are text, by path: what a chat model can be shown.
    #[must_use]
    pub fn text_files(&self) -> BTreeMap<String, String> {
        self.files
            .iter()
            .filter_map(|(path, bytes)| {
                Some((path.clone(), String::from_utf8(bytes.clone()).ok()?))
            })
            .collect()
    }

    /// Encodes the folder; equal folders have equal encodings.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        if self.files.is_empty() {
            return self.document.clone().into_bytes();
        }
        let mut out = MAGIC.to_vec();
        put(&mut out, self.document.as_bytes());
        for (path, bytes) in &self.files {
            put(&mut out, path.as_bytes());
            put(&mut out, bytes);
        }
        out
    }

    /// Decodes what [`Self::encode`] made.
    ///
    /// # Errors
    /// The bytes are no encoding of a folder: cut off, not UTF-8, or with paths that are unsafe,
    /// doubled or out of order.
    pub fn decode(bytes: &[u8]) -> Result<Self, FolderError> {
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
            return Ok(Self::of_document(utf8(bytes)?));
        };
        let mut folder = Self::of_document(utf8(take(&mut rest)?)?);
        while !rest.is_empty() {
            let path = utf8(take(&mut rest)?)?;
            let in_order = folder
                .files
                .last_key_value()
                .is_none_or(|(last, _)| last.as_str() < path);
            if !in_order {
                return Err(FolderError::BadEncoding("its paths are not in order"));
            }
            folder.insert(path, take(&mut rest)?.to_vec())?;
        }
        if folder.files.is_empty() {
            return Err(FolderError::BadEncoding("it has no files"));
        }
        Ok(folder)
    }

    /// Returns the address of the encoded folder.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Hash::of(&self.encode())
    }

    /// Returns the first 16 hex digits of [`Self::hash`], the form people see.
    #[must_use]
    pub fn hash_short(&self) -> String {
        self.hash().short()
    }
}

fn is_plain(path: &str) -> bool {
    path != DOCUMENT
        && !path.contains('\\')
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn put(out: &mut Vec<u8>, part: &[u8]) {
    out.extend_from_slice(&(part.len() as u64).to_le_bytes());
    out.extend_from_slice(part);
}

fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], FolderError> {
    let cut = || FolderError::BadEncoding("it is cut off");
    let (len, tail) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| cut())?;
    let (part, tail) = tail.split_at_checked(len).ok_or_else(cut)?;
    *rest = tail;
    Ok(part)
}

fn utf8(bytes: &[u8]) -> Result<&str, FolderError> {
    std::str::from_utf8(bytes).map_err(|_| FolderError::BadEncoding("its text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lone_document_has_the_hash_of_its_text() {
        let folder = Folder::of_document("hello");
        assert_eq!(folder.hash_short(), "2cf24dba5fb0a30e");
        assert_eq!(folder.encode(), b"hello");
    }

    #[test]
    fn every_file_counts_for_the_hash() {
        let mut folder = Folder::of_document("hello");
        folder.insert("a/b.sh", vec![0xff, 0]).unwrap();
        let one = folder.hash();
        assert_ne!(one, Folder::of_document("hello").hash());
        folder.insert("a/b.sh", vec![0xff, 1]).unwrap();
        assert_ne!(one, folder.hash());
        assert_ne!(folder.hash(), folder.with_document("x").hash());
    }

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        let bad = [
            "", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "a\nb", "SKILL.md",
        ];
        for path in bad {
            let refused = Folder::default().insert(path, vec![]);
            assert_eq!(refused, Err(FolderError::BadPath(path.to_owned())));
        }
        assert_eq!(Folder::default().insert("sub/SKILL.md", vec![]), Ok(()));
    }

    proptest! {
        #[test]
        fn encoding_round_trips(
            document in ".*",
            files in prop::collection::btree_map("[a-z]{1,3}(/[a-z]{1,3})?", prop::collection::vec(any::<u8>(), 0..9), 0..5),
        ) {
            let mut folder = Folder::of_document(document);
            for (path, bytes) in files {
                folder.insert(&path, bytes).unwrap();
            }
            let bytes = folder.encode();
            prop_assert_eq!(Folder::decode(&bytes), Ok(folder));
            // A cut encoding may be an error or, at a file's border, a smaller folder: no panic.
            for end in 0..bytes.len() {
                let _ = Folder::decode(&bytes[..end]);
            }
        }
    }
}
