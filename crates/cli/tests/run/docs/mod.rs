//! What README.md and the pages in docs/ say is true: every command line and every configuration entry is run, every option is there, every
//! link leads somewhere, and the picture shows what the demo prints.

mod commands;
mod entries;
mod home;
mod links;
mod options;
mod pages;
mod picture;
