package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// measured identifies a row, or with an engine the cell of a row.
type measured struct {
	workload      string
	threads, keys int
	engine        string
}

func (r *result) row() measured {
	return measured{workload: r.Workload, threads: r.Threads, keys: r.Keys}
}

func (r *result) cell() measured {
	m := r.row()
	m.engine = r.Engine
	return m
}

// merge adds the results of a later run, and removes earlier ones of the same engines in the same rows. New rows are
// the last ones. It fails if the figures are not comparable.
func (f *jsonFile) merge(later *jsonFile) error {
	if err := f.comparable(later); err != nil {
		return err
	}
	replaced, rows := map[measured]bool{}, map[measured]int{}
	for _, r := range later.Results {
		replaced[r.cell()] = true
	}
	all := slices.Concat(f.Results, later.Results)
	for _, r := range all {
		if _, known := rows[r.row()]; !known {
			rows[r.row()] = len(rows)
		}
	}
	f.Results = append(slices.DeleteFunc(f.Results, func(r *result) bool { return replaced[r.cell()] }), later.Results...)
	slices.SortStableFunc(f.Results, func(a, b *result) int { return cmp.Compare(rows[a.row()], rows[b.row()]) })

	c := &f.Conditions
	c.Added = append(c.Added, later.addition())
	c.Added = append(c.Added, later.Conditions.Added...)
	for _, e := range later.Conditions.Engines {
		i := slices.IndexFunc(c.Engines, func(other engineInfo) bool { return other.Name == e.Name })
		switch {
		case i < 0:
			c.Engines = append(c.Engines, e)
		case e.LeftOut == "":
			c.Engines[i] = e
		}
	}
	s := f.Settings
	s.Engines, s.Workloads = union(s.Engines, later.Settings.Engines), union(s.Workloads, later.Settings.Workloads)
	s.ScaleWorkloads, s.Rates = union(s.ScaleWorkloads, later.Settings.ScaleWorkloads), union(s.Rates, later.Settings.Rates)
	s.RateShares = union(s.RateShares, later.Settings.RateShares)
	s.Threads, s.Writers = union(s.Threads, later.Settings.Threads), union(s.Writers, later.Settings.Writers)
	return nil
}

// addition describes the run as one that is merged with another.
func (f *jsonFile) addition() addition {
	a := addition{Date: f.Conditions.Date, Load: f.Conditions.Load, Go: f.Conditions.Go}
	for _, r := range f.Results {
		a.Engines = union(a.Engines, []string{f.Conditions.about(r.Engine).Title})
		a.Workloads = union(a.Workloads, []string{r.Workload})
	}
	return a
}

// merge replaces the tables of workloads that a later run has measured again, and adds the others. A table is replaced
// as a whole, so the run must have every engine of the page: figures of two runs in one table would be compared.
func (p *page) merge(later *jsonFile) error {
	rep := assemble(later.Settings, later.Conditions, later.Results)
	if err := p.comparable(later, rep); err != nil {
		return err
	}
	details := slices.DeleteFunc(slices.Clone(p.tables), func(t table) bool { return !t.isDetails() })
	for _, t := range rep.tables() {
		i := slices.IndexFunc(details, func(old table) bool { return old.title == t.title })
		switch {
		case !t.isDetails():
		case i < 0:
			details = append(details, t)
		default:
			details[i] = t
		}
	}
	p.tables = append(overviews(details), details...)

	a, lines := later.addition(), rep.lines()
	p.lines = slices.DeleteFunc(p.lines, func(line string) bool {
		return strings.HasPrefix(line, enginesLine) || strings.HasPrefix(line, leftOutLine)
	})
	settings := slices.Index(p.lines, rep.cfg.String())
	p.lines = slices.Insert(p.lines, settings, a.String())
	p.lines = append(p.lines, lines[slices.Index(lines, rep.cfg.String())+1:]...)
	return nil
}

// comparable returns an error if the figures of the run cannot be beside those of the page.
func (p *page) comparable(later *jsonFile, rep *report) error {
	if !later.Complete || len(later.Conditions.Added) > 0 {
		return errors.New("it is not a complete run, or is merged with another")
	}
	if machine := later.Conditions.machine(); len(p.lines) == 0 || !strings.Contains(p.lines[0], machine) {
		return fmt.Errorf("it was made on %s, and the tables on another machine", machine)
	}
	if settings := rep.cfg.String(); !slices.Contains(p.lines, settings) {
		return fmt.Errorf("the settings of the tables differ from its own, which are: %s", settings)
	}
	old := strings.Join(p.lines, " ")
	_, titles := p.engines()
	for _, title := range titles {
		i := slices.IndexFunc(later.Conditions.Engines, func(e engineInfo) bool { return e.Title == title && e.LeftOut == "" })
		if i < 0 {
			return fmt.Errorf("it has no results of %s, which the tables have", title)
		}
		if version := title + " " + later.Conditions.Engines[i].Version; !strings.Contains(old, version) {
			return fmt.Errorf("it has %s, and the tables another version", version)
		}
	}
	return nil
}

// comparable returns an error that names a difference between the runs, other than their engines and workloads.
func (f *jsonFile) comparable(later *jsonFile) error {
	if !f.Complete || !later.Complete {
		return errors.New("an error ended one of the runs")
	}
	a, b, x, y := f.Settings, later.Settings, &f.Conditions, &later.Conditions
	for _, setting := range []struct {
		name     string
		one, two any
	}{
		{"num", a.Num, b.Num}, {"reads", a.Reads, b.Reads}, {"rounds", a.Rounds, b.Rounds}, {"key_shape", a.KeyShape, b.KeyShape},
		{"value_size", a.ValueSize, b.ValueSize}, {"cache_bytes", a.CacheBytes, b.CacheBytes}, {"open_files", a.OpenFiles, b.OpenFiles},
		{"scale", fmt.Sprint(a.Scale), fmt.Sprint(b.Scale)},
		{"rate_seconds", a.RateTime, b.RateTime},
		{"os", x.OS, y.OS}, {"arch", x.Arch, y.Arch}, {"processor", x.Processor, y.Processor}, {"processors", x.Processors, y.Processors},
	} {
		if setting.one != setting.two {
			return fmt.Errorf("%s is %v there and %v here", setting.name, setting.two, setting.one)
		}
	}
	for _, e := range y.Engines {
		other := x.about(e.Name)
		if e.LeftOut == "" && other.LeftOut == "" && other.Version != "" && other.Version != e.Version {
			return fmt.Errorf("%s is version %s there and %s here", e.Title, e.Version, other.Version)
		}
	}
	return nil
}

// union returns a with the elements of b that it lacks.
func union[T comparable](a, b []T) []T {
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}
