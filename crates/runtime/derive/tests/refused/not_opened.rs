//! A heap that was read, and not opened, is not worked on.

use seawall_memory::Image;
use seawall_runtime::Heap;

fn main() {
    let image = Image::new(4096, 0);
    let heap = Heap::read(&image, "list", 4096).unwrap();
    heap.join(&image);
}
