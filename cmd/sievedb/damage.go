package main

import (
	"errors"

	"github.com/sievedb/sievedb/db"
)

// Damage is loud: a verb that meets it, or that finds that entries are lost, says so on standard error and ends with
// exitFaults, whatever else it has printed.

// tellLosses says what opening a database has found to be lost. It reports whether there is anything.
func (a *app) tellLosses(store *db.DB) bool {
	losses := store.OpenReport().Losses
	for _, loss := range losses {
		a.say("entries are lost: %s", loss)
	}
	return len(losses) > 0
}

// withLosses gives the result of a verb that has read an incomplete database the exit code of damage.
func withLosses(err error) error {
	var f *failure
	switch {
	case err == nil:
		return ended(exitFaults)
	case errors.As(err, &f) && (f.err == nil || f.code == exitNotFound): // a result, such as "there are differences"
		return &failure{exitFaults, f.err}
	}
	return err
}

// probe opens and closes a database as verbs that read do. That reads its logs to their ends: a follower takes damage
// at the end of a log for a write in progress. inUse says that another process has the database open, which has read
// them.
func (a *app) probe(dir string, o db.Options) (inUse, lost bool, err error) {
	o.ReadOnly = true
	store, err := db.Open(dir, &o)
	switch {
	case errors.Is(err, db.ErrLocked):
		return true, false, nil
	case err != nil:
		return false, false, err
	}
	lost = a.tellLosses(store)
	return false, lost, store.Close()
}
