// Package console is a web page about a store: its levels and tables with what their filters do, rates,
// running compactions, stalls, memory and latencies, as they change; and an explanation of any lookup.
//
// A program mounts it:
//
//	http.Handle("/console/", http.StripPrefix("/console", console.Handler(store, nil)))
//
// Serve opens a directory that another program may have open, and serves the page on a loopback address.
//
// # What it shows and changes
//
// The page shows no key and no value, and changes nothing, unless Options say so. Each action that
// changes the store needs the token of Options.WriteToken. The JSON that the page requests is for the
// page alone and may change; programs use package metrics, or GET metrics below the page.
//
// # Security
//
// Requests are answered only if their Host is an IP address, localhost or one of Options.Hosts:
// otherwise a web site could make its own name mean this machine and read the answers. Requests of
// other origins that would do something are refused. The page loads nothing from elsewhere, and its
// content security policy allows nothing but its own files. There are no passwords and no encryption:
// anyone who can connect sees the page. So keep it on loopback, or mount it where the program checks who
// connects.
//
// # Cost
//
// The package has no goroutine of its own. A page that is visible asks once a second, and all pages share
// the readings of the store. docs/console.md has figures.
package console
