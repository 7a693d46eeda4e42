//! Finding blocks in files of the store, by offset or time: through the pages of a file's index, which are read one by
//! one and kept while they are used. Nothing here waits for the disk. A page that is damaged, or that the disk does not
//! give, has the index built again from the data, in memory.

use std::sync::Arc;

use model::{LogId, Offset, Wall};

use crate::engine::Storage;
use crate::index::Run;
use crate::job::{Job, JobDone, Lane, Outcome};
use crate::reading::Look;
use crate::reads::{Place, Source};
use crate::segment::open::{BlockIndex, OpenSegment, blocks_for, open_segment};
use crate::segment::pages::{Entry, IndexAt, Page};
use crate::{ReadId, StorageError};

/// Blocks of a run, back to back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    /// Where they begin, and their bytes.
    pub(crate) at: u64,
    pub(crate) bytes: usize,
    /// First offset of the block behind them; `None`: there is none.
    pub(crate) next: Option<Offset>,
    /// What was built again from damaged data ends here, before the run does.
    pub(crate) broken_at: Option<u64>,
    /// The page of the index that a reader who goes on needs next.
    pub(crate) page_ahead: Option<(u64, usize)>,
}

/// A run of a log, in an open file.
#[derive(Clone, Copy)]
pub(crate) struct InRun<'a> {
    pub(crate) segment: &'a OpenSegment,
    pub(crate) log: LogId,
    pub(crate) run: Run,
}

impl InRun<'_> {
    fn end(&self) -> u64 {
        self.run.at + self.run.bytes
    }

    fn has(&self, entry: &Entry) -> bool {
        entry.log == self.log && (self.run.at..self.end()).contains(&entry.at)
    }
}

// A page, or that it must be waited for.
type Step<T> = Result<Look<T>, StorageError>;

macro_rules! here {
    ($look:expr) => {
        match $look {
            Look::Here(found) => found,
            Look::Wait(id) => return Ok(Look::Wait(id)),
        }
    };
}

impl Storage {
    /// The blocks to read for an offset: as many as fit in `bytes_max`, but at least one. `None`: there are none.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], [`StorageError::Disk`].
    pub(crate) fn span(&mut self, of: InRun<'_>, from: Offset, bytes_max: usize) -> Step<Option<Span>> {
        let index = match &of.segment.index {
            BlockIndex::Pages(index, _) => *index,
            BlockIndex::Built(footer) => {
                let Some(blocks) = footer.run(of.log, of.run.first) else { return Ok(Look::Here(None)) };
                let Some((at, bytes)) = blocks_for(blocks, from, bytes_max) else { return Ok(Look::Here(None)) };
                let end = at + bytes as u64;
                let next = blocks.blocks.iter().find(|block| block.at >= end).map(|block| block.first);
                let broken_at = Some(blocks.end).filter(|_| next.is_none() && blocks.last < of.run.last);
                return Ok(Look::Here(Some(Span { at, bytes, next, broken_at, page_ahead: None })));
            }
        };
        let key = (of.log, from.max(of.run.first));
        let mut number = index.root();
        loop {
            let page = here!(self.page(of, (&index, number))?);
            let Some(place) = page.before(key) else { return Ok(Look::Here(None)) };
            let Some(entry) = page.entries.get(place).copied() else { return Ok(Look::Here(None)) };
            if page.level == 0 {
                let cursor = Cursor { page, number, place };
                return if of.has(&entry) {
                    self.span_from(of, &index, cursor, bytes_max)
                } else {
                    Ok(Look::Here(None))
                };
            }
            number = u32::try_from(entry.at).unwrap_or(u32::MAX);
        }
    }

    /// The first block from that of `from` on that has a message not before `time`.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], [`StorageError::Disk`].
    pub(crate) fn late_span(&mut self, of: InRun<'_>, from: Offset, time: Wall) -> Step<Option<Span>> {
        let from = from.max(of.run.first);
        match &of.segment.index {
            BlockIndex::Pages(index, _) => {
                let index = *index;
                let found = here!(self.late_entry(of, (&index, index.root()), (from, time))?);
                let Some(cursor) = found else { return Ok(Look::Here(None)) };
                self.span_from(of, &index, cursor, 0)
            }
            BlockIndex::Built(footer) => {
                let Some(blocks) = footer.run(of.log, of.run.first) else { return Ok(Look::Here(None)) };
                let first = blocks.blocks.partition_point(|block| block.first <= from).saturating_sub(1);
                let late = blocks.blocks.iter().skip(first).find(|block| block.time_max >= time);
                let Some(first) = late.map(|block| block.first) else { return Ok(Look::Here(None)) };
                self.span(of, first, 0)
            }
        }
    }

    // Down the tree, passing over pages in which all is older.
    fn late_entry(
        &mut self,
        of: InRun<'_>,
        (index, number): (&IndexAt, u32),
        (from, time): (Offset, Wall),
    ) -> Step<Option<Cursor>> {
        let page = here!(self.page(of, (index, number))?);
        let first = page.before((of.log, from)).unwrap_or(0);
        for (place, entry) in page.entries.iter().enumerate().skip(first) {
            if entry.key() > (of.log, of.run.last) {
                break;
            }
            if entry.time_max < time {
                continue;
            }
            if page.level == 0 {
                if of.has(entry) {
                    return Ok(Look::Here(Some(Cursor { page, number, place })));
                }
                continue;
            }
            let below = u32::try_from(entry.at).unwrap_or(u32::MAX);
            let found = here!(self.late_entry(of, (index, below), (from, time))?);
            if found.is_some() {
                return Ok(Look::Here(found));
            }
        }
        Ok(Look::Here(None))
    }

    // The blocks from the cursor's on.
    fn span_from(
        &mut self,
        of: InRun<'_>,
        index: &IndexAt,
        mut cursor: Cursor,
        bytes_max: usize,
    ) -> Step<Option<Span>> {
        let Some(at) = cursor.entry().map(|entry| entry.at) else { return Ok(Look::Here(None)) };
        let following = cursor.number.saturating_add(1);
        let page_ahead = Some(index.place(following)).filter(|_| following < index.root());
        let span = |end: u64, next: Option<Offset>| {
            let bytes = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
            Ok(Look::Here(Some(Span { at, bytes, next, broken_at: None, page_ahead })))
        };
        // What begins where the blocks end that are taken so far.
        let mut behind: Option<Entry> = None;
        loop {
            let next = match (self.move_on(of, index, &mut cursor)?, behind) {
                (Look::Here(next), _) => next.filter(|next| of.has(next)),
                (Look::Wait(_), Some(behind)) => return span(behind.at, Some(behind.first)),
                (Look::Wait(id), None) => return Ok(Look::Wait(id)),
            };
            let end = next.map_or(of.end(), |next| next.at);
            match (behind, next) {
                (Some(behind), _) if end.saturating_sub(at) > bytes_max as u64 => {
                    return span(behind.at, Some(behind.first));
                }
                (_, None) => return span(end, None),
                (_, Some(next)) => behind = Some(next),
            }
        }
    }

    // The entry behind the cursor's.
    fn move_on(&mut self, of: InRun<'_>, index: &IndexAt, cursor: &mut Cursor) -> Step<Option<Entry>> {
        cursor.place += 1;
        if cursor.entry().is_none() && cursor.number < index.root() {
            let page = here!(self.page(of, (index, cursor.number + 1))?);
            if page.level == 0 {
                *cursor = Cursor { page, number: cursor.number + 1, place: 0 };
            }
        }
        Ok(Look::Here(cursor.entry().copied()))
    }

    fn page(&mut self, of: InRun<'_>, (index, number): (&IndexAt, u32)) -> Step<Arc<Page>> {
        let segment = of.run.segment;
        if let BlockIndex::Pages(_, root) = &of.segment.index
            && number == index.root()
        {
            return Ok(Look::Here(Arc::clone(root)));
        }
        if let Some(page) = self.segments.page(segment, number) {
            return Ok(Look::Here(page));
        }
        let (at, bytes) = index.place(number);
        let place = Place { source: Source::Segment(segment), at, bytes };
        let page = match self.segment_bytes(of.segment, place) {
            Ok(Look::Here(bytes)) => Page::decode(&of.segment.generation, number, &bytes),
            Ok(Look::Wait(id)) => return Ok(Look::Wait(id)),
            Err(_) => None,
        };
        match page.map(Arc::new) {
            Some(page) => {
                self.segments.keep_page((segment, number), Arc::clone(&page));
                Ok(Look::Here(page))
            }
            None => {
                self.segments.remove(segment);
                Ok(Look::Wait(self.open_by_job(segment, true)))
            }
        }
    }

    /// A job that opens the file, unless one does already. `anew`: and builds its index from the data.
    pub(crate) fn open_by_job(&mut self, number: u64, anew: bool) -> ReadId {
        let file = self.index.store.file(number);
        let place = Place { source: Source::Segment(number), at: 0, bytes: 0 };
        if let Some(id) = self.desk.waiting(&place) {
            return id;
        }
        let id = self.desk.begin(vec![place]);
        let disk = Arc::clone(&self.disk);
        self.jobs.push_back(Job::new(Lane::Read, move || {
            let result = open_segment(&*disk, file, anew);
            JobDone { what: Outcome::Opened { id, file, result } }
        }));
        id
    }
}

// A block's entry in a page of the lowest level.
struct Cursor {
    page: Arc<Page>,
    number: u32,
    place: usize,
}

impl Cursor {
    fn entry(&self) -> Option<&Entry> {
        self.page.entries.get(self.place)
    }
}
