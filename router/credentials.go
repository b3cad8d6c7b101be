package router

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/banyan-llm/banyan/router/access"
	"github.com/banyan-llm/banyan/router/fleet"
)

// withCredentials is the configuration with the replicas' credentials read from
// where it says they stand. Faults never quote them.
func (c *Config) withCredentials() (*Config, []error) {
	out := *c
	out.Replicas = slices.Clone(c.Replicas)
	var errs []error
	for i := range out.Replicas {
		if err := readCredentials(&out.Replicas[i]); err != nil {
			errs = append(errs, fmt.Errorf("replicas[%d].%w", i, err))
		}
	}
	return &out, errs
}

func readCredentials(s *fleet.Spec) error {
	told := 0
	for _, v := range []string{s.Credentials, s.CredentialsFile, s.CredentialsEnv} {
		if v != "" {
			told++
		}
	}
	switch {
	case told > 1:
		return errors.New("credentials: give one of credentials, credentials_file, credentials_env")
	case s.CredentialsFile != "":
		secret, err := access.ReadSecret(s.CredentialsFile)
		if err != nil {
			return fmt.Errorf("credentials_file: %w", err)
		}
		s.Credentials = secret
	case s.CredentialsEnv != "":
		if s.Credentials = os.Getenv(s.CredentialsEnv); s.Credentials == "" {
			return fmt.Errorf("credentials_env: %s is not set", s.CredentialsEnv)
		}
	}
	return nil
}
