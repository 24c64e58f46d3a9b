// Package repair rebuilds a damaged database from its tables and logs. db.Repair has the
// promises: what is kept, what is lost, what may come back, and what a crash leaves.
//
// A repair goes in steps (Repairer.steps). It lists the directory, reads every MANIFEST, every
// table in use and every log, decides what stays, and writes the rest to new tables. Then it
// writes a MANIFEST, moves what is not in use to lost, and switches CURRENT last.
package repair
