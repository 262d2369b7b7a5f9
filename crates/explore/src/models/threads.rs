//! A value for each thread, made when the thread is first seen.

#[derive(Clone)]
pub(super) struct PerThread<T>(Vec<T>);

impl<T> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        PerThread(Vec::new())
    }
}

impl<T: Default> PerThread<T> {
    pub(super) fn of(&mut self, thread: u16) -> &mut T {
        let thread = usize::from(thread);
        if self.0.len() <= thread {
            self.0.resize_with(thread + 1, T::default);
        }
        &mut self.0[thread]
    }

    pub(super) fn get(&self, thread: u16) -> Option<&T> {
        self.0.get(usize::from(thread))
    }
}
