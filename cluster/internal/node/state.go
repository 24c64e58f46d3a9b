package node

import (
	"errors"

	"github.com/sievedb/sievedb/cluster/internal/layout"
	"github.com/sievedb/sievedb/cluster/internal/machine"
	"github.com/sievedb/sievedb/cluster/internal/replica"
	"github.com/sievedb/sievedb/db"
)

// groupState is the replica.State of a group.
type groupState struct{ *machine.Machine }

var _ replica.State = groupState{}

// Meta implements replica.State.
func (s groupState) Meta(name string) (value []byte, err error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	err = s.WithDB(func(d *db.DB) (err error) {
		value, err = d.Get(layout.Meta(name))
		if errors.Is(err, db.ErrNotFound) {
			value, err = nil, nil
		}
		return err
	})
	if errors.Is(err, db.ErrCorruption) {
		s.Damaged(err)
	}
	return value, err
}
