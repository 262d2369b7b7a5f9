//! Programs in C and C++ on libseawall.
