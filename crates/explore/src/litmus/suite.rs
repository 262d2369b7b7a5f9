//! The tests that come with seawall, embedded: the files under `litmus/`.

use super::{Litmus, MODELS, parse};

/// A file of the suite.
#[derive(Clone, Copy, Debug)]
pub struct SuiteFile {
    /// Its folder.
    pub family: &'static str,
    /// Its name without the ending.
    pub id: &'static str,
    /// What it says.
    pub text: &'static str,
}

macro_rules! suite {
    ($($family:ident: $($id:ident)*;)*) => {
        /// Every file of the suite, family by family.
        pub const SUITE: &[SuiteFile] = &[$($(SuiteFile {
            family: stringify!($family),
            id: stringify!($id),
            text: include_str!(concat!(
                "../../litmus/", stringify!($family), "/", stringify!($id), ".litmus"
            )),
        },)*)*];
    };
}

suite! {
    x86: A01 A02 A03 A04 A05 A07 A08 A09 A10 A11 A13 A14 A15 A16 A17 A19 A20 A21 A22 A23 A30 A31
        A32 A33 A34 A35 A37 A38 A39 A41 A42 A43 A44;
    lines: B01 B02 B03 B04 B05 B07 B08 B09 B10 B20 B21 B22 B23 B24 B25 B26 B27 B28 B30 B31 B32
        B33 B34 B35 B36;
    threads: C01 C03 C04 C05 C06 C07 C09 C10 C11 C12 C13 C15 C16 C17 C18 C19 C30 C31 C32 C33 C34
        C35 C36 C37 C38 C39 C40 C41 C42 C43 C45 C46 C47 C48 C49 C50 C51;
    locks: D01 D02 D03 D04 D05 D07 D08 D09 D10 D11 D30 D31 D32 D33 D34 D35 D36 D37 D38 D39 D40
        D41 D42 D43 D44 D45 D46 D47 D48;
    reads: E02 E03 E04 E05 E10 E11 E12 F01 F03 F04 F05 F06 F07 F09 F11 F13 F14 F15 F16 F17 F18
        F19;
    nt: N01 N02 N03 N04 N06 N07 N08 N09 N10 N12 N20 N21 N22 N23 N24 N25 N26 N27 N28 N29 N30 N31
        N32 N34 N35 N36 N37 N38 N39 N40 N41 N42 N43 N44 N45 N46 N47 N48
        N49 N50;
    epoch: G01 G02 G03 G04 G05 G07 G08 G09 G10 G11 G13 G14 G15 G16 G17 G30 G31 G32 G33 G35 G36
        G37 G38 G39 G40 G41 G42 G45 G46 G47 G48 G49 G50 G51;
    dependence: H01 H02 H03 H04 H05 H06 H07 H08 H09 H10 H11 H12 H13 H15 H16 H17 H18 H19 H20 H21
        H22 H23 H24 H25 H26 H27 H28 H29 H30 H31 H32 H33 H34;
    idioms: I01 I02 I03 I04 I05 I06 I07 I08 I09 I10 I11 I12 I13 I14 I15 I16 I17 I18 I19 I20 I21
        I22;
    strands: S01 S02 S03 S04 S05 S06 S07 S08 S09 S10 S11 S12 S13 S14 S15 S16 S17 S18 S19 S20
        S21 S22 S23 S24 S25;
}

/// The tests of the suite.
///
/// # Panics
/// Never: a test of this crate reads them all.
pub fn suite() -> Vec<Litmus> {
    let read = |file: &SuiteFile| {
        let name = format!("litmus/{}/{}.litmus", file.family, file.id);
        let parsed = parse::parse(&name, (file.family, file.id), file.text.as_bytes(), &MODELS);
        parsed.unwrap_or_else(|error| panic!("{error}"))
    };
    SUITE.iter().map(read).collect()
}
