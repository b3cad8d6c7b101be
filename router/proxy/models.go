package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

const modelsPath = "/v1/models"

func (x *exchange) isModels() bool {
	p := x.r.URL.Path
	return p == modelsPath || strings.HasPrefix(p, modelsPath+"/")
}

// serveModels answers /v1/models and /v1/models/{id} from what is known of
// all replicas.
func (x *exchange) serveModels() {
	models := []Model{}
	if x.cfg.Models != nil {
		models = append(models, x.cfg.Models()...)
	}
	for i := range models {
		models[i].Object = "model"
	}
	id := strings.TrimPrefix(strings.TrimPrefix(x.r.URL.Path, modelsPath), "/")
	if id == "" {
		x.writeJSON(struct {
			Object string  `json:"object"`
			Data   []Model `json:"data"`
		}{"list", models})
		return
	}
	for i := range models {
		if models[i].ID == id {
			x.writeJSON(&models[i])
			return
		}
	}
	fail := refusal(http.StatusNotFound, "model_not_found", "The model `"+id+"` does not exist.")
	fail.Param = "model"
	x.refuse(fail)
}

func (x *exchange) writeJSON(v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic("invariant: models marshal: " + err.Error())
	}
	header := x.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	x.lastHeader()
	x.answer(http.StatusOK)
	if x.r.Method != http.MethodHead {
		_, _ = x.w.Write(body)
	}
}
