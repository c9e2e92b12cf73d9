//! Where a thread is counted while it sleeps.
//!
//! A handler that interrupts it may never return there (siglongjmp): then it would be counted for ever. So it is not
//! while the handler runs, and is again if that returns. What happens in between it has not heard of, and so it does not
//! go on to sleep then, whatever the handler says of that: who is counted waits for several things, and
//! such calls the kernel ends in any case.

use core::cell::Cell;

/// What counts threads that sleep.
pub trait Counts {
    /// One more does, or is about to. It looks once more.
    fn enter(&self);

    /// The inverse.
    fn leave(&self);
}

thread_local! {
    /// By what this thread is counted.
    static BY: Cell<Option<*const dyn Counts>> = const { Cell::new(None) };
}

/// Runs `sleep`, during which the thread, which has [entered](Counts::enter), is counted.
pub fn during<T>(counts: &(dyn Counts + 'static), sleep: impl FnOnce() -> T) -> T {
    BY.set(Some(core::ptr::from_ref(counts)));
    let slept = sleep();
    BY.set(None);
    slept
}

/// What counted a thread that a handler has interrupted.
pub struct Interrupted(*const dyn Counts);

/// A handler is about to run in this thread, which may be asleep: it is counted no more.
pub fn interrupted() -> Option<Interrupted> {
    let by = BY.take()?;
    // SAFETY: it is borrowed for as long as the sleep that was interrupted, which has not ended.
    unsafe { (*by).leave() };
    Some(Interrupted(by))
}

impl Interrupted {
    /// The handler returns to the sleep.
    pub fn goes_on(self) {
        // SAFETY: as above.
        unsafe { (*self.0).enter() };
        BY.set(Some(self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count(Cell<i32>);

    impl Counts for Count {
        fn enter(&self) {
            self.0.set(self.0.get() + 1);
        }

        fn leave(&self) {
            self.0.set(self.0.get() - 1);
        }
    }

    #[test]
    fn who_is_interrupted_is_counted_when_the_handler_returns_and_not_before() {
        let count = Count(Cell::new(1));
        during(&count, || {
            let by = interrupted().unwrap();
            assert_eq!(count.0.get(), 0);
            // A call of the handler's own.
            assert!(interrupted().is_none());
            by.goes_on();
            assert_eq!(count.0.get(), 1);
        });
        assert!(interrupted().is_none());
    }
}
