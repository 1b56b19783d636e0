/** The page to try a model: an image or a drawing goes to the service, its answer is shown. */

interface ModelInfo {
  readonly name: string;
  readonly classifies: boolean;
  readonly explains: boolean;
}

interface Answer {
  readonly classes: readonly { readonly label: string; readonly confidence: number }[];
  readonly gradcam?: { readonly image: string; readonly layer: string };
}

/** An element that the page has. */
function element<E extends Element>(id: string, type: new () => E): E {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${type.name} called ${id}`);
  return found;
}

const model = element('model', HTMLSelectElement);
const file = element('file', HTMLInputElement);
const preview = element('preview', HTMLImageElement);
const zone = element('zone', HTMLElement);
const hint = element('hint', HTMLElement);
const canvas = element('canvas', HTMLCanvasElement);
const heat = element('heat', HTMLInputElement);
const key = element('key', HTMLInputElement);
const message = element('message', HTMLElement);
const classes = element('classes', HTMLElement);
const figure = element('heat-figure', HTMLElement);
const pen = canvas.getContext('2d', { willReadFrequently: true })!;

let models: readonly ModelInfo[] = [];
/** What was asked about last, to ask again with another model. */
let image: Blob | undefined;
/** Answers that come late, to questions before the last, are not shown. */
let asked = 0;

const headers = (): Record<string, string> =>
  key.value === '' ? {} : { authorization: `Bearer ${key.value}` };

/** @throws Error with what the service says */
async function ask(path: string, init: RequestInit = {}): Promise<unknown> {
  const response = await fetch(path, { ...init, headers: { ...headers(), ...init.headers } });
  const body = (await response.json()) as { readonly error?: string };
  if (response.status === 401) element('key-row', HTMLElement).hidden = false;
  if (!response.ok) throw new Error(body.error ?? `the service answered with status ${response.status}`);
  return body;
}

async function listModels(): Promise<void> {
  ({ models } = (await ask('v1/models')) as { readonly models: readonly ModelInfo[] });
  const names = [...new Set(models.filter(({ classifies }) => classifies).map(({ name }) => name))];
  model.replaceChildren(...names.map((name) => new Option(name)));
  say(names.length > 0 ? 'Nothing yet.' : 'No model that is loaded classifies images.');
}

function say(text: string, isError = false): void {
  message.textContent = text;
  message.hidden = text === '';
  message.classList.toggle('error', isError);
}

async function classify(): Promise<void> {
  if (!image || model.value === '') return;
  const own = ++asked;
  const explains = models.some(({ name, explains }) => name === model.value && explains);
  const query = `top=5&gradcam=${heat.checked && explains}`;
  try {
    const answer = (await ask(`v1/models/${encodeURIComponent(model.value)}/classify?${query}`, {
      method: 'POST',
      body: image,
      headers: { 'content-type': 'application/octet-stream' },
    })) as Answer;
    if (own === asked) show(answer);
  } catch (error) {
    if (own !== asked) return;
    classes.replaceChildren();
    figure.hidden = true;
    say((error as Error).message, true);
  }
}

function show({ classes: ranked, gradcam }: Answer): void {
  say('');
  classes.replaceChildren(
    ...ranked.map(({ label, confidence }) => {
      const item = document.createElement('li');
      item.style.setProperty('--share', `${100 * confidence}%`);
      const [name, share] = [document.createElement('span'), document.createElement('span')];
      name.textContent = label;
      share.textContent = `${(100 * confidence).toFixed(1)} %`;
      item.append(name, share);
      return item;
    }),
  );
  figure.hidden = gradcam === undefined;
  if (!gradcam) return;
  element('heat-image', HTMLImageElement).src = gradcam.image;
  element('heat-caption', HTMLElement).textContent =
    `Where it finds the evidence (Grad-CAM of ${gradcam.layer})`;
}

function take(blob: Blob | null | undefined): void {
  if (!blob) return;
  image = blob;
  URL.revokeObjectURL(preview.src);
  preview.src = URL.createObjectURL(blob);
  preview.hidden = false;
  hint.hidden = true;
  void classify();
}

function choose(tab: 'drop' | 'draw'): void {
  for (const name of ['drop', 'draw'] as const) {
    element(name, HTMLElement).hidden = name !== tab;
    element(`tab-${name}`, HTMLElement).setAttribute('aria-selected', String(name === tab));
  }
}

function clear(): void {
  pen.fillStyle = '#000';
  pen.fillRect(0, 0, canvas.width, canvas.height);
}

/** As the digits of MNIST are: the longer side 20 of 28 pixels, in the middle. */
function centred(): HTMLCanvasElement | undefined {
  const { width, height } = canvas;
  const { data } = pen.getImageData(0, 0, width, height);
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let i = 0; i < width * height; i++) {
    if (data[4 * i]! < 32) continue;
    const [x, y] = [i % width, Math.floor(i / width)];
    [left, right, top, bottom] = [
      Math.min(left, x),
      Math.max(right, x),
      Math.min(top, y),
      Math.max(bottom, y),
    ];
  }
  if (right < 0) return undefined;
  const [w, h] = [right - left + 1, bottom - top + 1];
  const scale = ((20 / 28) * width) / Math.max(w, h);
  const out = document.createElement('canvas');
  [out.width, out.height] = [width, height];
  const to = out.getContext('2d')!;
  to.fillRect(0, 0, width, height);
  to.drawImage(
    canvas,
    left,
    top,
    w,
    h,
    (width - w * scale) / 2,
    (height - h * scale) / 2,
    w * scale,
    h * scale,
  );
  return out;
}

function addDrawing(): void {
  let isDown = false;
  const at = ({ clientX, clientY }: PointerEvent): readonly [number, number] => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    return [((clientX - left) / width) * canvas.width, ((clientY - top) / height) * canvas.height];
  };
  canvas.addEventListener('pointerdown', (event) => {
    isDown = true;
    canvas.setPointerCapture(event.pointerId);
    pen.beginPath();
    pen.moveTo(...at(event));
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!isDown) return;
    [pen.strokeStyle, pen.lineWidth, pen.lineCap, pen.lineJoin] = ['#fff', 22, 'round', 'round'];
    pen.lineTo(...at(event));
    pen.stroke();
  });
  const up = (): void => {
    if (!isDown) return;
    isDown = false;
    centred()?.toBlob((blob) => {
      if (!blob) return;
      image = blob;
      void classify();
    });
  };
  canvas.addEventListener('pointerup', up);
  canvas.addEventListener('pointercancel', up);
}

file.addEventListener('change', () => take(file.files?.[0]));
zone.addEventListener('dragover', (event) => {
  event.preventDefault();
  zone.classList.add('over');
});
zone.addEventListener('dragleave', () => zone.classList.remove('over'));
zone.addEventListener('drop', (event) => {
  event.preventDefault();
  zone.classList.remove('over');
  take(event.dataTransfer?.files[0]);
});
document.addEventListener('paste', (event) => take(event.clipboardData?.files[0]));
for (const tab of ['drop', 'draw'] as const)
  element(`tab-${tab}`, HTMLElement).addEventListener('click', () => choose(tab));
element('clear', HTMLElement).addEventListener('click', clear);
model.addEventListener('change', () => void classify());
heat.addEventListener('change', () => void classify());
key.addEventListener('change', () => listModels().catch((error: Error) => say(error.message, true)));
clear();
addDrawing();
listModels().catch((error: Error) => say(error.message, true));
