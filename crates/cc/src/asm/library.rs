//! What functions of the C library cost that are not compiled with the program: those of
//! mathematics, of random numbers, of text to numbers, of characters and a few others, of which a
//! program may call millions.
//!
//! A call counts as so many instructions. The numbers are means of single steps through glibc 2.36
//! on a processor with fused multiplication and addition, over 64 arguments each: magnitudes from
//! e^-4.5 to e^4.5 with both signs, from -1 to 1 where that is the domain, numbers of 1 to 6 digits
//! as text. They are constants, so that a program costs the same on every host. What these
//! functions do to memory of their own, tables above all, costs nothing.

use super::instruction::{Flow, Instruction};
use super::program::Program;

/// Instructions of a call by the function's name, in the order of names.
const INSTRUCTIONS: &[(&str, u32)] = &[
    ("__ctype_b_loc", 3),
    ("__ctype_tolower_loc", 3),
    ("__ctype_toupper_loc", 3),
    ("abs", 4),
    ("acos", 68),
    ("acosf", 50),
    ("acosh", 79),
    ("acoshf", 77),
    ("asin", 63),
    ("asinf", 42),
    ("asinh", 84),
    ("asinhf", 80),
    ("atan", 62),
    ("atan2", 142),
    ("atan2f", 126),
    ("atanf", 53),
    ("atanh", 100),
    ("atanhf", 104),
    ("atof", 791),
    ("atoi", 204),
    ("atol", 204),
    ("cbrt", 132),
    ("cbrtf", 122),
    ("ceil", 2),
    ("ceilf", 2),
    ("copysign", 9),
    ("copysignf", 9),
    ("cos", 79),
    ("cosf", 26),
    ("cosh", 69),
    ("coshf", 68),
    ("div", 6),
    ("drand48", 63),
    ("erand48", 62),
    ("erf", 74),
    ("erfc", 89),
    ("erfcf", 77),
    ("erff", 63),
    ("exp", 51),
    ("exp10", 123),
    ("exp10f", 33),
    ("exp2", 41),
    ("exp2f", 27),
    ("expf", 29),
    ("expm1", 59),
    ("expm1f", 62),
    ("fabs", 2),
    ("fabsf", 2),
    ("fdim", 11),
    ("fdimf", 11),
    ("floor", 2),
    ("floorf", 2),
    ("fma", 4),
    ("fmaf", 4),
    ("fmax", 7),
    ("fmaxf", 7),
    ("fmin", 7),
    ("fminf", 7),
    ("fmod", 67),
    ("fmodf", 64),
    ("frexp", 23),
    ("frexpf", 17),
    ("getenv", 119),
    ("gmtime", 339),
    ("hypot", 56),
    ("hypotf", 25),
    ("ilogb", 21),
    ("ilogbf", 20),
    ("isalnum", 3),
    ("isalpha", 3),
    ("isdigit", 3),
    ("islower", 3),
    ("isprint", 3),
    ("ispunct", 3),
    ("isspace", 3),
    ("isupper", 3),
    ("isxdigit", 3),
    ("j0", 205),
    ("j0f", 147),
    ("labs", 4),
    ("ldexp", 48),
    ("ldexpf", 46),
    ("ldiv", 4),
    ("lgamma", 139),
    ("lgammaf", 122),
    ("llrint", 2),
    ("llrintf", 2),
    ("llround", 22),
    ("llroundf", 22),
    ("localtime", 1013),
    ("log", 53),
    ("log10", 90),
    ("log10f", 74),
    ("log1p", 63),
    ("log1pf", 67),
    ("log2", 55),
    ("log2f", 35),
    ("logb", 15),
    ("logbf", 12),
    ("logf", 36),
    ("lrand48", 54),
    ("lrint", 2),
    ("lrintf", 2),
    ("lround", 22),
    ("lroundf", 22),
    ("modf", 19),
    ("modff", 19),
    ("mrand48", 48),
    ("nearbyint", 2),
    ("nearbyintf", 2),
    ("nextafter", 42),
    ("nextafterf", 32),
    ("nrand48", 53),
    ("pow", 127),
    ("powf", 66),
    ("rand", 52),
    ("rand_r", 18),
    ("random", 48),
    ("random_r", 28),
    ("remainder", 94),
    ("remainderf", 103),
    ("rint", 2),
    ("rintf", 2),
    ("round", 19),
    ("roundeven", 2),
    ("roundevenf", 2),
    ("roundf", 19),
    ("scalbln", 47),
    ("scalblnf", 48),
    ("scalbn", 48),
    ("scalbnf", 46),
    ("sin", 74),
    ("sincos", 121),
    ("sincosf", 38),
    ("sinf", 26),
    ("sinh", 105),
    ("sinhf", 108),
    ("sqrt", 8),
    ("sqrtf", 8),
    ("srand", 6196),
    ("srand48", 11),
    ("srandom", 6196),
    ("strerror", 543),
    ("strtod", 791),
    ("strtof", 787),
    ("strtol", 204),
    ("strtoll", 204),
    ("strtoul", 201),
    ("strtoull", 201),
    ("tan", 80),
    ("tanf", 79),
    ("tanh", 92),
    ("tanhf", 94),
    ("tgamma", 371),
    ("tgammaf", 315),
    ("tolower", 3),
    ("toupper", 3),
    ("trunc", 2),
    ("truncf", 2),
    ("y0", 282),
    ("y0f", 216),
];

/// What the function costs that an instruction calls, or jumps to as its last act; 0 if it is none
/// of these, or one of the file's own.
pub(super) fn cost(instruction: &Instruction<'_>, program: &Program<'_>) -> u32 {
    let target = match instruction.flow() {
        Flow::Call(Some(target)) | Flow::Jump(Some(target)) => target,
        Flow::Call(None) | Flow::Jump(None) => match instruction.memory() {
            Some(memory) => memory.text,
            None => return 0,
        },
        _ => return 0,
    };
    if program.function_of.contains_key(target) { 0 } else { instructions(target).unwrap_or(0) }
}

/// The same by the target of a call (`sin`, `sin@PLT`, `sin@GOTPCREL(%rip)`).
fn instructions(target: &str) -> Option<u32> {
    let name = target.split('@').next().unwrap_or(target);
    let at = INSTRUCTIONS.binary_search_by_key(&name, |(name, _)| name).ok()?;
    Some(INSTRUCTIONS[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_every_way_to_call_them() {
        assert!(INSTRUCTIONS.is_sorted_by_key(|(name, _)| *name));
        let sin = instructions("sin");
        assert!(sin.is_some_and(|count| count > 20));
        assert_eq!(instructions("sin@PLT"), sin);
        assert_eq!(instructions("sin@GOTPCREL(%rip)"), sin);
        assert_ne!(instructions("sinf"), sin);
        assert_eq!(instructions("sinister"), None);
    }

    #[test]
    fn a_block_counts_what_it_calls_unless_the_file_defines_it() {
        let sin = 1 + instructions("sin").unwrap();
        for (body, count) in [
            ("call sin@PLT\nret", 1 + sin),
            ("jmp sin@PLT", sin),
            ("call *sin@GOTPCREL(%rip)\nret", 1 + sin),
            ("call other\nret", 2),
            ("call f\nret", 2),
        ] {
            let file = |name: &str| {
                let body = body.replace("call f", &format!("call {name}"));
                format!(".type {name},@function\n{name}:\n{body}\n.size {name},.-{name}\n")
            };
            let name = if body.starts_with("call f") { "rand" } else { "g" };
            let text = crate::asm::instrument(&(file(name) + ".ident \"GCC\"\n")).unwrap();
            assert!(text.contains(&format!("addq\t${count}, 0x5ea00010")), "{body}:\n{text}");
        }
    }
}
