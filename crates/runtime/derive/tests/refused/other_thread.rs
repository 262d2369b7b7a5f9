//! A session on another thread than its own: its memory is a handle of one thread.

use seawall_memory::Image;
use seawall_runtime::typed::Pool;

fn body<'p>(pool: Pool<'p, u64>, memory: &Image) {
    let mut session = pool.join(memory);
    std::thread::scope(|scope| {
        scope.spawn(|| session.transaction(|tx| tx.set(pool.root(), 7)));
    });
}

fn main() {}
