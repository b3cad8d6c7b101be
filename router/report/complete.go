package report

import "github.com/banyan-llm/banyan/router/console"

// Complete adds to a status what follows from it and from how its replicas are
// listed: problems and notes, each with a cure, and the verdict.
func Complete(s *console.Status, f *Fleet) {
	s.Problems = append(s.Problems, failureProblems(&s.Requests.Failures)...)
	noPlace, fewFiles := placeProblems(&s.Requests)
	s.Problems = append(s.Problems, noPlace...)
	s.Problems = append(s.Problems, problems(s)...)
	s.Problems = append(s.Problems, turnProblems(s.LateMs)...)
	if s.Queue != nil {
		s.Problems = append(s.Problems, queueProblems(s.Queue)...)
	}
	s.Problems = append(s.Problems, f.problems()...)
	s.Problems = append(s.Problems, keyProblems(s.Keys)...)
	s.Notes = append(s.Notes, notes(s)...)
	s.Notes = append(s.Notes, fewFiles...)
	if s.Queue != nil {
		s.Notes = append(s.Notes, crowdedNotes(s.Queue.WorkingSet)...)
	}
	s.Judge()
}
