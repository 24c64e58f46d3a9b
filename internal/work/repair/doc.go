// Package repair rebuilds a damaged database from its tables and logs. db.Repair documents the
// promises: what is kept, what is lost, what may come back, and what a crash leaves.
//
// A repair works in steps (Repairer.steps). It lists the directory, reads every MANIFEST, every
// table in use and every log, decides which files stay, and writes the other entries to new tables.
// Then it writes a MANIFEST, moves unused files to lost, and switches CURRENT last.
package repair
