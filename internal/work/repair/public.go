package repair

import "github.com/sievedb/sievedb/report"

// Public returns the findings about the database in dir in their public form.
func (r *Findings) Public(dir string) *report.RepairReport {
	public := &report.RepairReport{
		Dir: dir, Healthy: r.Healthy, Manifest: r.Manifest, ManifestProblem: r.ManifestProblem, MayResurrect: r.MayResurrect,
		TablesWritten: r.TablesWritten, BytesWritten: r.BytesWritten, EntriesWritten: r.EntriesWritten,
		EntriesDuplicate: r.EntriesDuplicate, EntriesConflicting: r.EntriesConflicting,
		EntriesShadowed: r.EntriesShadowed, EntriesTooLarge: r.EntriesTooLarge,
		EntriesFilled: r.EntriesFilled, LastSequence: r.LastSequence, NewManifest: r.NewManifest,
	}
	public.Interrupted = r.Interrupted
	public.EntriesLost, public.BytesLost = r.EntriesLost, r.BytesLost
	public.Incomplete = r.Damaged || r.MayResurrect || r.Interrupted || r.EntriesLost > 0 || r.BytesLost > 0 || len(r.Ranges) > 0 ||
		r.EntriesConflicting > 0 || r.EntriesTooLarge > 0
	for _, k := range r.Ranges {
		public.Ranges = append(public.Ranges, report.RepairedRange(k))
	}
	for _, f := range r.Files {
		public.Files = append(public.Files, report.RepairedFile{
			Name: f.Name, Fate: report.FileFate(f.Fate), Level: f.Level, LostName: f.LostName, Reason: f.Reason, Damage: f.Damage,
			Bytes: f.Bytes, BytesLost: f.BytesLost, Blocks: f.Blocks, BlocksLost: f.BlocksLost, Entries: f.Entries,
		})
	}
	return public
}
