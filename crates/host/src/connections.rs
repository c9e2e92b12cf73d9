//! Which socket a connection of the engine belongs to.
//!
//! The engine names a connection by a place in its own table and the generation of its tenant. Here
//! the places that this process has met are kept in pages, so that a look-up is two loads however
//! large the engine's table is, and a page costs memory only once one of its places is used.

use std::sync::Arc;

use queue_pair::ConnRef;

/// Places in a page.
const PAGE: usize = 256;
/// The first place that is refused: an engine that has this many connections is lying.
const LIMIT: u32 = 1 << 22;

type Page<C> = [Option<Tenant<C>>; PAGE];

struct Tenant<C> {
    generation: u32,
    socket: Arc<C>,
}

/// The sockets of one attachment by the engine's name for their connections.
pub(crate) struct Connections<C> {
    pages: Vec<Option<Box<Page<C>>>>,
}

impl<C> Default for Connections<C> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<C> Connections<C> {
    /// The socket of this very connection.
    pub(crate) fn get(&self, conn: ConnRef) -> Option<&Arc<C>> {
        let tenant = self.pages.get(conn.index as usize / PAGE)?.as_ref()?
            [conn.index as usize % PAGE]
            .as_ref()?;
        (tenant.generation == conn.generation).then_some(&tenant.socket)
    }

    /// Gives the place to a new connection. The socket that had it, if it is still there, is
    /// returned: the engine has forgotten it. `Err`: there can be no such place.
    pub(crate) fn insert(
        &mut self,
        conn: ConnRef,
        socket: Arc<C>,
    ) -> Result<Option<Arc<C>>, ConnRef> {
        if conn.index >= LIMIT {
            return Err(conn);
        }
        let page = conn.index as usize / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Box::new([const { None }; PAGE]));
        let place = &mut page[conn.index as usize % PAGE];
        let former = place.replace(Tenant {
            generation: conn.generation,
            socket,
        });
        Ok(former.map(|tenant| tenant.socket))
    }

    /// Takes the socket of this very connection out.
    pub(crate) fn remove(&mut self, conn: ConnRef) -> Option<Arc<C>> {
        let place = &mut self.pages.get_mut(conn.index as usize / PAGE)?.as_mut()?
            [conn.index as usize % PAGE];
        if place.as_ref()?.generation != conn.generation {
            return None;
        }
        place.take().map(|tenant| tenant.socket)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<C>> {
        let tenants = self
            .pages
            .iter()
            .flatten()
            .flat_map(|page| page.iter().flatten());
        tenants.map(|tenant| &tenant.socket)
    }

    /// Takes all of them out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Arc<C>> + use<C> {
        self.drain_named().into_iter().map(|(_, socket)| socket)
    }

    /// Takes all of them out, with the engine's names for their connections.
    pub(crate) fn drain_named(&mut self) -> Vec<(ConnRef, Arc<C>)> {
        let mut all = Vec::new();
        for (number, page) in std::mem::take(&mut self.pages).into_iter().enumerate() {
            for (place, tenant) in page
                .into_iter()
                .flat_map(|page| page.into_iter().enumerate())
            {
                if let Some(Tenant { generation, socket }) = tenant {
                    // Places are below LIMIT.
                    let index = (number * PAGE + place) as u32;
                    all.push((ConnRef { index, generation }, socket));
                }
            }
        }
        all
    }
}
