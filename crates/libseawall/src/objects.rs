//! Objects by ref and offset, in pools where objects move and in others.

use crate::pool::OpenPool;
use crate::status::Failure;
use crate::tx::CallTx;
use seawall_memory::Addr;
use seawall_runtime::described::{Described, DescribedError};

impl From<DescribedError> for Failure {
    fn from(error: DescribedError) -> Failure {
        match error {
            DescribedError::Tx(error) => error.into(),
            DescribedError::Unknown { name, .. } => Failure::unknown_type(&name),
            DescribedError::Outside { at, offset, bytes, size } => {
                let text = no_data(at.offset(), offset, bytes).text;
                Failure::invalid(format!("{text}, which has {size}"))
            }
            DescribedError::Moves { at } => Failure::invalid(format!(
                "what is at ref {:#x} can move, or has refs that the library must see: use \
                 sw_tx_read and sw_tx_write",
                at.offset()
            )),
            other => Failure::invalid(other.to_string()),
        }
    }
}

fn no_data(at: u64, offset: u64, bytes: u64) -> Failure {
    Failure::invalid(format!(
        "{bytes} bytes at {offset} behind ref {at:#x} are no data of this pool; use a ref that it \
         gave, and stay inside its object"
    ))
}

/// Bytes of an object: its ref, and where they begin in it.
pub(crate) type Place = (u64, u64);

impl OpenPool {
    /// The address of bytes that the program may use, in a pool where nothing moves.
    fn data(&self, tx: &CallTx<'_>, (at, offset): Place, bytes: u64) -> Result<Addr, Failure> {
        let address = self.address(at, offset, bytes)?;
        if bytes > 0 && !tx.is_data(address, bytes) {
            return Err(no_data(at, offset, bytes));
        }
        Ok(address)
    }

    /// The address of an object, bytes of which are data, if they are within it.
    fn object(&self, tx: &CallTx<'_>, (at, offset): Place, bytes: u64) -> Result<Addr, Failure> {
        self.address(at, offset, bytes)?;
        let object = self.address(at, 0, 1)?;
        if !tx.is_data(object, 1) {
            return Err(no_data(at, offset, bytes));
        }
        Ok(object)
    }

    /// The types, and the bytes of an object of the one at that place.
    pub(crate) fn type_at(&self, of: usize) -> Result<(&Described, u64), Failure> {
        let none = || {
            let text = format!("options.types has no type {of}; the first one is 0");
            Failure::invalid(text)
        };
        let described = self.described.as_ref().ok_or_else(none)?;
        Ok((described, described.bytes_of(of).ok_or_else(none)?))
    }

    /// A place for so many bytes of an object, if the pool has them.
    pub(crate) fn room_for(&self, (at, offset): Place, bytes: usize) -> Result<Vec<u8>, Failure> {
        self.address(at, offset, bytes as u64)?;
        Ok(vec![0; bytes])
    }

    /// Reads bytes of an object.
    pub(crate) fn read(
        &self,
        tx: &mut CallTx<'_>,
        (at, offset): Place,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        match &self.described {
            Some(described) => {
                let object = self.object(tx, (at, offset), into.len() as u64)?;
                Ok(described.read(tx, object, offset, into)?)
            }
            None => {
                let from = self.data(tx, (at, offset), into.len() as u64)?;
                tx.read(from, into);
                Ok(())
            }
        }
    }

    /// Writes bytes of an object.
    pub(crate) fn write(
        &self,
        tx: &mut CallTx<'_>,
        (at, offset): Place,
        from: &[u8],
    ) -> Result<(), Failure> {
        match &self.described {
            Some(described) => {
                let object = self.object(tx, (at, offset), from.len() as u64)?;
                Ok(described.write(tx, object, offset, from)?)
            }
            None => {
                let to = self.data(tx, (at, offset), from.len() as u64)?;
                Ok(tx.write(to, from)?)
            }
        }
    }

    /// Frees an object.
    pub(crate) fn free(&self, tx: &mut CallTx<'_>, at: u64) -> Result<(), Failure> {
        let address = self.address(at, 0, 1)?;
        match &self.described {
            Some(described) => Ok(described.free(tx, address)?),
            None => Ok(tx.free(address)?),
        }
    }

    /// The address of bytes that the program may store to by itself.
    pub(crate) fn fixed(
        &self,
        tx: &mut CallTx<'_>,
        (at, offset): Place,
        bytes: u64,
    ) -> Result<Addr, Failure> {
        match &self.described {
            Some(described) => {
                let object = self.object(tx, (at, offset), bytes)?;
                Ok(described.fixed(tx, object, offset, bytes)?)
            }
            None => self.data(tx, (at, offset), bytes),
        }
    }

    /// Refuses an address of what can move.
    pub(crate) fn check_stays(&self, address: Addr) -> Result<(), Failure> {
        let Some(described) = &self.described else { return Ok(()) };
        let stays = described.stays(&self.heap, &self.memory(), address);
        if stays.map_err(seawall_runtime::TxError::from)? {
            return Ok(());
        }
        Err(Failure::from(DescribedError::Moves { at: address }))
    }
}
