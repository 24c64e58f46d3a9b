package main

import (
	"strconv"
	"time"

	"github.com/sievedb/sievedb/backup"
)

// parsePoint reads the value of --at: a sequence number, or a time with its zone.
func parsePoint(text string) (p backup.Point, err error) {
	if p.Sequence, err = strconv.ParseUint(text, 10, 64); err == nil && p.Sequence > 0 {
		return p, nil
	}
	if p.Time, err = time.Parse(time.RFC3339Nano, text); err != nil {
		return p, misuse("--at is %q; want a sequence number above 0, or a time such as 2026-03-01T12:00:00Z", text)
	}
	p.Sequence = 0
	return p, nil
}

// restoreAt restores the point of --at.
func (a *app) restoreAt(args []string, at, id, database string) error {
	p, err := parsePoint(at)
	if err != nil {
		return err
	}
	repo, err := repository(args[0])
	if err != nil {
		return err
	}
	stop := a.waiting("restoring", nil)
	r, err := repo.RestoreAt(a.ctx, id, p, args[1], &backup.RestoreOptions{Database: database})
	stop()
	if err != nil {
		return err
	}
	return a.out.result(r, func() {
		a.out.prose("%s and %s of %s; last sequence %d", r.Backup.ID, a.out.count(uint64(r.Changes), "change"),
			a.out.count(uint64(r.Segments), "segment"), r.Sequence)
	})
}
