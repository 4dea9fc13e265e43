// The simulator flavour: every access of the kernels passes the fault model.
#define MATS_SIM
#define MATS_FIND mats_sim_find
#define MATS_RUN mats_sim_run
#include "flavour.inc"

thread_local mats_sim::Model* mats_sim::current = nullptr;

// Runs one simulated launch; the model is used by this thread alone.
void mats_sim_launch(mats_sim::Model* model, const mats_cpu::Kernel* kernel, void* const* arguments, unsigned blocks) {
  mats_sim::current = model;
  model->unit = &blockIdx.x;
  model->begin_launch();
  mats_cpu::run(*kernel, arguments, blocks, 1, 1);
  model->end_launch();
  mats_sim::current = nullptr;
}
