/** What the protocols serve: the repository, and the state of the process. */

import type { AccessControl } from './access.js';
import type { ServiceMetrics } from './metrics.js';
import type { ServiceLimits } from './options.js';
import type { Repository } from './repository/repository.js';

/** Shared by REST and gRPC. */
export interface Service {
  readonly repository: Repository;
  readonly metrics: ServiceMetrics;
  readonly limits: ServiceLimits;
  readonly access: AccessControl;
  /** Whether requests can be answered: everything is loaded, and the service is not being ended. */
  readonly isReady: () => boolean;
}

/** The name by which servers of the protocol introduce themselves. */
export const SERVER_NAME = 'heddle';

/** The extensions of the protocol that are there. */
export const EXTENSIONS = [
  'binary_tensor_data',
  'classification',
  'model_repository',
  'schedule_policy',
] as const;
