package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sievedb/sievedb/cmd/internal/bench"
	"github.com/sievedb/sievedb/db"
)

// peerReads has the report's lookups with one layout of filters. README.md documents its JSON form.
type peerReads struct {
	Name   string  `json:"name"`
	Noun   string  `json:"-"`
	What   string  `json:"filters"`
	Stored lookups `json:"stored_keys"`
	Absent lookups `json:"absent_keys"`
}

// ownNoun names the store's own filters.
const (
	ownName = "sievedb"
	ownNoun = "SieveDB"
	ownWhat = "10 bits per key for each table, 15 above the last level"
)

// measurePeers looks up the same keys in copies of the tables with the filters of other stores, and
// adds what was measured without filters and with the store's own.
func (r *report) measurePeers(ctx context.Context, s *session, tables []db.TableInfo, last int, stored, absent *keyList) (err error) {
	r.Peers = append(r.Peers, &peerReads{
		Name: noFilters.name, Noun: noFilters.noun, What: noFilters.what, Stored: r.Stored.Off, Absent: r.Absent.Off,
	})
	root, err := s.scratchDir("peers")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(root)) }()
	for i := range peerLayouts {
		l := &peerLayouts[i]
		dir := filepath.Join(root, l.name)
		if err := writeLayout(s.fs, s.dir, dir, tables, last, l); err != nil {
			return err
		}
		in, err := s.lookupsIn(dir)
		if err != nil {
			return err
		}
		p := &peerReads{Name: l.name, Noun: l.noun, What: l.what}
		if err := s.passes(ctx, l.noun, l.policy, in, stored, absent, &p.Stored, &p.Absent); err != nil {
			return err
		}
		r.Peers = append(r.Peers, p)
	}
	own := &peerReads{Name: ownName, Noun: "SieveDB, as set", What: r.filters(), Stored: r.Stored.On, Absent: r.Absent.On}
	if r.FilterKind == "both" && r.Bits == peerBits {
		own.Noun, own.What = ownNoun, ownWhat
	}
	r.Peers = append(r.Peers, own)
	return nil
}

// scratchDir creates a folder next to the database, so on the same device, or where temporary files are
// if that is not possible.
func (s *session) scratchDir(what string) (string, error) {
	pattern := "dbbench-" + what + "-"
	if dir, err := os.MkdirTemp(filepath.Dir(filepath.Clean(s.dir)), pattern); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", pattern)
}

// checkPeers verifies that lookups find the same with every layout.
func (r *report) checkPeers() {
	var wrong []string
	for _, p := range r.Peers {
		if p.Stored.Found != r.Stored.Off.Found || p.Absent.Found != r.Absent.Off.Found {
			wrong = append(wrong, p.Noun)
		}
	}
	detail := fmt.Sprintf("%d layouts", len(r.Peers))
	if len(wrong) > 0 {
		detail = "not with " + strings.Join(wrong, ", ")
	}
	r.check(len(wrong) == 0, "other stores' filters give the same answers", "%s", detail)
}

// writePeers prints the comparison with other stores' filters.
func (r *report) writePeers(w io.Writer) error {
	if len(r.Peers) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("\nTHE SAME LOOKUPS WITH THE FILTERS OF OTHER STORES, on the same data blocks and levels\n\n")
	line := func(name, absent, stored, memory, what string) {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%-18s%16s%16s%13s   %s", name, absent, stored, memory, what), " ") + "\n")
	}
	line("", "reads per Get,", "reads per Get,", "filters", "")
	line("", "absent keys", "stored keys", "in memory", "")
	for _, p := range r.Peers {
		line(p.Noun, fmt.Sprintf("%.4f", p.Absent.ReadsPerGet), fmt.Sprintf("%.4f", p.Stored.ReadsPerGet), bench.SizeText(p.Absent.FilterBytes), p.What)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
