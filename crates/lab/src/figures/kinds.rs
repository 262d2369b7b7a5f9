//! The kinds of figures: one line each.
//!
//! From the table the macro makes [`Figure`], which is one of them, and [`Figures`], which holds
//! what was measured for some figures of any kinds. Records come by kind, in the order of the
//! table; text comes in the order of the figures.

use super::page::Page;
use super::*;

macro_rules! kinds {
    ($(
        $(#[$doc:meta])*
        $Kind:ident($name:literal, $Figure:ty) -> $records:ident: $Record:ty;
    )*) => {
        /// A figure of a paper.
        #[derive(Clone, Debug)]
        pub enum Figure {
            $($(#[$doc])* $Kind($Figure),)*
        }

        impl Figure {
            /// Reads the description of a figure called `name`.
            pub(super) fn parse(name: &str, text: &str) -> Result<Figure, LabError> {
                let wrong = |what: String| LabError::Figure { name: name.into(), what };
                let table: toml::Table =
                    toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
                let kind = table.get("kind").map_or(Some("designs"), toml::Value::as_str);
                match kind.unwrap_or_default() {
                    $($name => {
                        let mut figure: $Figure =
                            toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
                        figure.name = name.to_owned();
                        figure.check().map_err(wrong)?;
                        Ok(Figure::$Kind(figure))
                    })*
                    other => {
                        let known = [$(concat!("\"", $name, "\"")),*].join(", ");
                        Err(wrong(format!("kind = \"{other}\" is none of {known}")))
                    }
                }
            }

            /// Name on the command line.
            pub fn name(&self) -> &str {
                match self {
                    $(Figure::$Kind(figure) => &figure.name,)*
                }
            }

            /// What it shows, and where the paper says so.
            pub fn about(&self) -> (&str, &str) {
                match self {
                    $(Figure::$Kind(figure) => (&figure.title, &figure.source),)*
                }
            }
        }

        /// Figures with what was measured for them.
        #[derive(Debug)]
        pub struct Figures {
            pub(super) figures: Vec<Figure>,
            $($records: Vec<$Record>,)*
            is_strict: bool,
            is_partial: bool,
            /// Runs that were kept in a file, if there is one.
            taken: Option<usize>,
            /// The options that decided what was measured.
            flags: String,
        }

        impl Figures {
            /// Runs `figures`; stops soon after `stop` becomes true, with what is complete by then.
            ///
            /// # Errors
            /// A figure that is named twice or cannot be run.
            pub fn run(
                figures: Vec<Figure>,
                options: &FigureOptions,
                progress: &Progress,
                stop: &Arc<AtomicBool>,
            ) -> Result<Figures, LabError> {
                let names = figures.iter().map(|figure| figure.name().to_owned());
                once("figure", &names.collect::<Vec<_>>())?;
                check_jobs(options.jobs)?;
                let kept = options.keep.as_deref().map(Kept::open).transpose()?;
                let runner = Runner { jobs: options.jobs, progress, stop, kept: kept.as_ref() };
                let mut is_partial = false;
                $(
                    let of_kind: Vec<&$Figure> = figures
                        .iter()
                        .filter_map(|figure| match figure {
                            Figure::$Kind(figure) => Some(figure),
                            _ => None,
                        })
                        .collect();
                    let ($records, is_whole) = match of_kind.is_empty() {
                        true => (Vec::new(), true),
                        false => Kind::run(&of_kind, options, &runner)?,
                    };
                    is_partial |= !is_whole;
                )*
                let taken = kept.map(|kept| kept.taken());
                let (is_strict, flags) = (options.strict, options.flags());
                Ok(Figures { figures, $($records,)* is_strict, is_partial, taken, flags })
            }

            $(
                #[doc = concat!("The records of figures of the kind ", $name, ", in their order.")]
                pub fn $records(&self) -> &[$Record] {
                    &self.$records
                }
            )*

            /// True if everything was measured and is within its tolerance or bound; of a figure
            /// whose file says how many values of single workloads are not, exactly so many may be
            /// outside.
            pub fn hold(&self) -> bool {
                let hold = self.figures.iter().all(|figure| match figure {
                    $(Figure::$Kind(figure) => figure.holds(&of(&figure.name, &self.$records)),)*
                });
                hold && !self.is_partial
            }

            /// The published values of each figure, and which of them hold.
            pub fn published_values(&self) -> Vec<(&str, Vec<PublishedValue>)> {
                let of_figure = self.figures.iter().map(|figure| match figure {
                    $(Figure::$Kind(figure) => {
                        let records = of(&figure.name, &self.$records);
                        (figure.name.as_str(), figure.published_values(&records))
                    })*
                });
                of_figure.collect()
            }

            /// What people read of each figure, and behind several of them, how many values hold.
            pub fn to_text(&self) -> String {
                let text = self.figures.iter().map(|figure| match figure {
                    $(Figure::$Kind(figure) => figure.to_text(&of(&figure.name, &self.$records)),)*
                });
                let partial = "PARTIAL: stopped before everything was measured\n";
                let tally = match self.figures.len() {
                    0 | 1 => String::new(),
                    _ => tally::text(&self.published_values()),
                };
                text.collect::<String>() + &tally + if self.is_partial { partial } else { "" }
            }

            pub(super) fn lines(&self) -> String {
                [$(json_lines(&self.$records)),*].concat()
            }

            pub(super) fn shown(&self) -> Vec<FigureValues<'_>> {
                let of_figure = self.figures.iter().map(|figure| match figure {
                    $(Figure::$Kind(figure) => FigureValues {
                        name: &figure.name,
                        title: &figure.title,
                        source: &figure.source,
                        values: figure.published_values(&of(&figure.name, &self.$records)),
                    },)*
                });
                of_figure.collect()
            }

            pub(super) fn write_pages(&self) -> Result<Vec<ResultFile>, ReportError> {
                let mut all = Vec::new();
                for figure in &self.figures {
                    all.extend(match figure {
                        $(Figure::$Kind(figure) => {
                            let records = of(&figure.name, &self.$records);
                            Page {
                                name: &stem(&figure.name),
                                title: &figure.title,
                                source: &figure.source,
                                values: &figure.published_values(&records),
                                programs: &figure.about_programs(),
                                flags: self.flags(),
                                text: &figure.to_text(&records),
                            }
                            .files()?
                        })*
                    });
                }
                Ok(all)
            }

            pub(super) fn draw(&self) -> Result<Vec<ResultFile>, ReportError> {
                let mut all = Vec::new();
                for figure in &self.figures {
                    all.extend(match figure {
                        $(Figure::$Kind(figure) => {
                            figure.plots(&of(&figure.name, &self.$records))?
                        })*
                    });
                }
                Ok(all)
            }
        }

        $(
            impl OfFigure for $Record {
                fn figure(&self) -> &str {
                    &self.figure
                }
            }
        )*
    };
}

kinds! {
    /// Bars that compare designs.
    Designs("designs", DesignFigure) -> records: FigureRecord;
    /// Times of programs that hardware cuts into epochs.
    Kernels("kernels", KernelFigure) -> kernel_records: KernelFigureRecord;
    /// A sweep that compares ways of logging.
    Logging("logging", LoggingFigure) -> logging_records: LoggingRecord;
    /// How much of flushed lines was dirty.
    Dirtiness("dirtiness", DirtinessFigure) -> dirtiness_records: DirtinessRecord;
    /// How much memory programs take that grow and shrink.
    Fragmentation("fragmentation", FragmentationFigure)
        -> fragmentation_records: FragmentationRecord;
    /// The time that moving objects takes.
    Moving("moving", MovingFigure) -> moving_records: MovingRecord;
    /// What placing objects together gains.
    Coalescing("coalescing", CoalescingFigure) -> coalescing_records: CoalescingRecord;
}

impl Figures {
    /// True if the run was stopped before everything was measured.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// How many runs were taken from the file where they are kept, if there is one.
    pub(super) fn taken(&self) -> Option<usize> {
        self.taken
    }

    /// The options that decided what was measured, as they are typed.
    pub(super) fn flags(&self) -> &str {
        &self.flags
    }

    /// True if a figure that does not hold is to be an error.
    pub(super) fn is_strict(&self) -> bool {
        self.is_strict
    }
}

/// A figure and its values.
pub(super) struct FigureValues<'a> {
    pub(super) name: &'a str,
    pub(super) title: &'a str,
    pub(super) source: &'a str,
    pub(super) values: Vec<PublishedValue>,
}

/// A record, which says of which figure it is.
trait OfFigure {
    fn figure(&self) -> &str;
}

fn of<'r, R: OfFigure>(figure: &str, records: &'r [R]) -> Vec<&'r R> {
    records.iter().filter(|record| record.figure() == figure).collect()
}
