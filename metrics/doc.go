// Package metrics names the figures of a store for monitoring systems: each figure of a
// report.Metrics has a family, with a name, a help text and labels as Prometheus has them.
//
// Exporters read one list, so their names agree:
//
//   - Var is a variable for package expvar.
//   - WriteText writes the text format of Prometheus, without any other module.
//   - The nested module metrics/prometheus has a collector for programs that use
//     client_golang, and a dashboard for Grafana. The Prometheus bridge of OpenTelemetry reads it.
//
// All functions may be called from any goroutine. Values are read when they are called, which costs
// microseconds, and about one more for each file of the directory. Nothing is kept between the calls.
package metrics
