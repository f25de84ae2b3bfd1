//! `nostray metrics`: what `ps` knows, for Prometheus.

use std::path::PathBuf;

use nostray_registry::census;
use nostray_terminal::{self as terminal, ExitCode};
use nostray_view::{Ends, Looker, metrics};

/// Print metrics for Prometheus
///
/// Children by state, sessions, restarts, ends by reason, memory, processor time, what sharing and sleeping save; of supervised and shared
/// children also messages, calls, errors, and how long calls take, by method. `nostray web` serves the same at /metrics.
///
/// For the textfile collector of the node exporter, call it from a timer with --output: the file is replaced in one step, as the collector
/// wants it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  nostray metrics
  nostray metrics --output /var/lib/prometheus/node-exporter/nostray.prom
  nostray metrics | promtool check metrics

Names that stay: nostray_children{state}, nostray_sessions,
nostray_saved_bytes{by}, nostray_ends_total{reason}, and with {id, name}:
nostray_child_memory_bytes, nostray_child_processes,
nostray_child_cpu_seconds_total, nostray_child_sessions,
nostray_child_restarts_total, nostray_child_start_time_seconds,
nostray_messages_total; with {id, name, mcp_method_name}: nostray_calls_total,
nostray_call_errors_total, nostray_call_duration_seconds (a histogram).")]
pub(crate) struct Args {
    /// Write to this file instead, in one step
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let children = Looker::default().thorough(census());
    let text = metrics::text(&children, &Ends::count());
    let Some(path) = &args.output else { return terminal::print(text.as_bytes()) };
    // Beside it, since a file can be renamed within its file system only. The collector reads names that end with `.prom`.
    let by_way_of = path.with_extension(format!("new-{}", std::process::id()));
    match nostray_registry::files::replace_public(path, &by_way_of, text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::complain(&format_args!("cannot write {}: {error}", path.display()));
            ExitCode::FAILURE
        }
    }
}
