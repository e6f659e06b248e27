//! What SQLite says, in our words.

use rusqlite::ErrorCode;

use crate::store::Error;

/// Translates an error about `place`.
pub(super) fn translate(place: &str, error: &rusqlite::Error) -> Error {
    let place = place.to_owned();
    let detail = error.to_string();
    if let rusqlite::Error::InvalidColumnType(..) = error {
        // A value of another kind than we ever write.
        return Error::Corrupt { place, detail };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full { place },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::ReadOnly { place },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::Busy { place },
        Some(ErrorCode::DatabaseCorrupt) => Error::Corrupt { place, detail },
        Some(ErrorCode::NotADatabase) => Error::Foreign { place },
        _ => Error::Io { place, detail },
    }
}

/// Translates an error of the operating system about `place`.
pub(super) fn translate_io(place: &str, error: &std::io::Error) -> Error {
    let place = place.to_owned();
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            Error::Full { place }
        }
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            Error::ReadOnly { place }
        }
        _ => Error::Io {
            place,
            detail: error.to_string(),
        },
    }
}
