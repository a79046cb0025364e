//! One run of a description on one machine.

use std::path::Path;

use ptx_emulator::{Arch, LaunchConfig, Machine, Module, ModuleId, Options};

use crate::buffers::Buffers;
use crate::description::{Description, Launch};
use crate::failure::{Failure, Result};
use crate::output::{self, Mode, Results};
use crate::parameters;

/// What is run.
pub struct Job<'j> {
    pub description: &'j Description,
    /// The description's folder.
    pub folder: &'j Path,
    /// The PTX file.
    pub path: &'j Path,
    pub text: &'j str,
    /// Whether statistics are printed.
    pub statistics: bool,
}

/// The buffers in the end.
pub struct Outcome(Vec<(String, Vec<u8>)>);

impl Outcome {
    /// The buffers that hold something else.
    pub fn differences<'o>(&'o self, other: &'o Self) -> impl Iterator<Item = &'o str> {
        let pairs = self.0.iter().zip(&other.0);
        pairs.filter(|(own, other)| own.1 != other.1).map(|(own, _)| own.0.as_str())
    }
}

impl Job<'_> {
    /// What the machine is like, as the description and the PTX say.
    pub fn options(&self) -> Result<Options> {
        let mut options = Options::new(self.arch()?);
        if let Some(seed) = self.description.seed {
            options.seed = seed;
        }
        if let Some(multiprocessors) = self.description.multiprocessors {
            options.multiprocessors = multiprocessors;
        }
        if let Some(limit) = self.description.instruction_limit {
            options.instruction_limit = limit;
        }
        Ok(options)
    }

    fn arch(&self) -> Result<Arch> {
        if let Some(name) = &self.description.arch {
            return name.get_ref().parse().map_err(|error| self.description.wrong(name, error));
        }
        let module =
            Module::parse(self.text).map_err(|error| Failure::load(self.path, &error.into()))?;
        let target = module.target.first().map_or("", String::as_str);
        // A target that none runs is for the machine to refuse.
        Ok(Arch::ALL.into_iter().find(|arch| arch.runs(target)).unwrap_or(Arch::Sm90a))
    }

    /// Loads, launches and puts out.
    pub fn run(&self, options: Options, mode: Mode) -> Result<Outcome> {
        let mut machine = Machine::with_options(options);
        let module = machine.load(self.text).map_err(|error| Failure::load(self.path, &error))?;
        let buffers = Buffers::place(self.description, self.folder, &mut machine, module)?;
        for (index, launch) in self.description.launches.iter().enumerate() {
            self.launch(index + 1, launch, &mut machine, module, &buffers, mode)?;
        }
        let results = Results {
            description: self.description,
            folder: self.folder,
            machine: &machine,
            buffers: &buffers,
        };
        results.put_out(mode)?;
        let contents = buffers.iter().map(|own| Ok((own.name.clone(), results.bytes(own)?)));
        contents.collect::<Result<_>>().map(Outcome)
    }

    fn launch(
        &self,
        number: usize,
        launch: &Launch,
        machine: &mut Machine,
        module: ModuleId,
        buffers: &Buffers<'_>,
        mode: Mode,
    ) -> Result {
        let name = launch.kernel.get_ref();
        let found = machine.kernel(module, name);
        let Some((kernel, info)) = found.and_then(|id| Some((id, machine.kernel_info(id)?))) else {
            let names: Vec<&str> = machine.kernels(module).collect();
            let text = format!("no kernel `{name}` in the PTX; it has {}", names.join(", "));
            return Err(self.description.wrong(&launch.kernel, text));
        };
        let arch = machine.options().arch;
        let block = parameters::block(launch, info, buffers, self.description, arch)?;
        let config = LaunchConfig {
            grid: launch.grid.lengths(),
            block: launch.block.lengths(),
            cluster: launch.cluster.lengths(),
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
        };
        let statistics =
            machine.launch(kernel, &config, &block).map_err(|error| match error.report() {
                Some(report) => Failure::Report(report.to_string()),
                None => self.description.wrong(&launch.kernel, error),
            })?;
        if self.statistics && mode == Mode::Everything {
            output::say(&format!("launch {number}, `{name}`:\n{statistics}\n"));
        }
        Ok(())
    }
}
