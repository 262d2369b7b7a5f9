//! What a page in HTML has with it, for the tests that hold pages to records.

use serde_json::Value;

/// The JSON that the page has under that name.
pub(crate) fn embedded(html: &str, id: &str) -> Value {
    let head = format!("<script type=\"application/json\" id=\"{id}\">");
    let from = html.find(&head).expect("a page has its data") + head.len();
    let end = from + html[from..].find("</script>").expect("it ends");
    serde_json::from_str(&html[from..end]).expect("it is JSON")
}
